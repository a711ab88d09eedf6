// The memory of a call whose blocks have each a place and a type of their own, several for a member or none: of
// MPI_Alltoallw and the neighbor collectives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "intranode/member_blocks.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::mpi {

class RankTeam;

// A block in the program's memory.
struct Place {
  std::uint32_t member;
  std::int64_t count;
  std::int64_t offset;  // from the buffer, in bytes
  MPI_Datatype type;
  TypeShape shape;

  [[nodiscard]] std::int64_t bytes() const { return count * shape.size; }
};

// Blocks with data, in the order of members. Those of one member are in the order in which they meet the other side's.
[[nodiscard]] std::vector<Place> places_of(const Job& job, const TeamArguments& arguments, const TeamSide& side,
                                           std::uint32_t members);

// The bytes for each member in a row: where they are in the buffer if that is so for all members, else packed.
class PlacedBlocks {
 public:
  // `which`: of the team's scratch memories, in case it is needed.
  PlacedBlocks(const Job& job, RankTeam& team, std::size_t which, const TeamArguments& arguments, const TeamSide& side);
  [[nodiscard]] const intranode::Blocks& blocks() const { return blocks_; }
  [[nodiscard]] bool packed() const { return packed_; }
  void pack() { copy(Packing::pack); }
  void unpack() { copy(Packing::unpack); }

 private:
  [[nodiscard]] bool are_in_rows() const;
  void copy(Packing direction);

  const Job& job_;
  const void* buffer_;
  std::vector<Place> places_;
  bool packed_ = false;
  intranode::Blocks blocks_;
};

}  // namespace outrigger::mpi
