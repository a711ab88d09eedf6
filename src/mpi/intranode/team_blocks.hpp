// The memory of a call as a team wants it: bytes in a row. Memory that is
// contiguous already is used in place; other memory is packed into scratch memory.
#pragma once

#include <cstdint>
#include <span>

#include "intranode/member_blocks.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::mpi {

// One block.
class TeamBlock {
 public:
  // `which`: of the team's scratch memories, in case it is needed.
  TeamBlock(const Job& job, RankTeam& team, std::size_t which, const TeamSide& side, std::int64_t count);
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  void pack() { copy(Packing::pack); }
  void unpack() { copy(Packing::unpack); }

 private:
  void copy(Packing direction);

  const Job& job_;
  const TeamSide& side_;
  std::int64_t count_;
  bool packed_ = false;
  std::span<std::byte> bytes_;
};

// One block for each member.
class TeamBlocks {
 public:
  TeamBlocks(const Job& job, RankTeam& team, std::size_t which, const TeamArguments& arguments, const TeamSide& side);
  [[nodiscard]] const intranode::Blocks& blocks() const { return blocks_; }
  [[nodiscard]] bool packed() const { return packed_; }
  void pack() {
    for (std::uint32_t member = 0; packed_ && member < members_; ++member) copy(Packing::pack, member);
  }
  void pack_one(std::uint32_t member) {
    if (packed_) copy(Packing::pack, member);
  }
  void unpack() {
    for (std::uint32_t member = 0; packed_ && member < members_; ++member) copy(Packing::unpack, member);
  }

 private:
  void lay_out_in_buffer(RankTeam::Lists& lists);
  void lay_out_packed(RankTeam& team, std::size_t which);
  void copy(Packing direction, std::uint32_t member);

  const Job& job_;
  const TeamArguments& arguments_;
  const TeamSide& side_;
  std::uint32_t members_;
  bool packed_ = false;
  intranode::Blocks blocks_;
};

}  // namespace outrigger::mpi
