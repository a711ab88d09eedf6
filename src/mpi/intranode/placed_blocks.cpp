#include "mpi/intranode/placed_blocks.hpp"

#include <algorithm>

#include "mpi/intranode/rank_team.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"

namespace outrigger::mpi {
namespace {

// The type of an empty block may be invalid.
void add_place(const Job& job, const TeamArguments& arguments, const TeamSide& side, std::uint32_t member,
               std::uint32_t place, std::vector<Place>& places) {
  const std::int64_t count = arguments.count_at(side, place);
  if (count == 0) return;
  const MPI_Datatype type = arguments.type_at(side, place);
  const Place found{member, count, arguments.offset_at(side, place), type, shape_of(job, type)};
  if (found.bytes() != 0) places.push_back(found);
}

}  // namespace

std::vector<Place> places_of(const Job& job, const TeamArguments& arguments, const TeamSide& side,
                             std::uint32_t members) {
  std::vector<Place> places;
  if (side.neighbors == nullptr) {
    for (std::uint32_t member = 0; member < members; ++member) {
      add_place(job, arguments, side, member, member, places);
    }
    return places;
  }
  const NeighborSide& neighbors = *side.neighbors;
  for (std::size_t i = 0; i < neighbors.ranks.size(); ++i) {
    for (std::uint32_t at = neighbors.first[i]; at < neighbors.first[i + 1]; ++at) {
      add_place(job, arguments, side, neighbors.ranks[i], neighbors.places[at], places);
    }
  }
  return places;
}

PlacedBlocks::PlacedBlocks(const Job& job, RankTeam& team, std::size_t which, const TeamArguments& arguments,
                           const TeamSide& side)
    : job_(job), buffer_(side.buffer), places_(places_of(job, arguments, side, team.size())), packed_(!are_in_rows()) {
  RankTeam::Lists& lists = team.lists(which);
  lists.bytes.assign(team.size(), 0);
  lists.offsets.assign(team.size(), 0);
  std::uint64_t total = 0;
  std::int64_t lowest = 0;
  for (const Place& place : places_) lowest = std::min(lowest, place.offset + place.shape.first);
  for (const Place& place : places_) {
    const bool is_first = lists.bytes[place.member] == 0;
    const auto in_buffer = static_cast<std::uint64_t>(place.offset + place.shape.first - lowest);
    if (is_first) lists.offsets[place.member] = packed_ ? total : in_buffer;
    lists.bytes[place.member] += static_cast<std::uint64_t>(place.bytes());
    total += static_cast<std::uint64_t>(place.bytes());
  }
  std::byte* base = packed_ ? team.scratch(which, total) : address_of(buffer_, lowest);
  blocks_ = intranode::Blocks::irregular(base, lists.bytes.data(), lists.offsets.data());
}

// Any buffer may be memory that only the MPI can copy.
bool PlacedBlocks::are_in_rows() const {
  if (accelerator_loaded()) return false;
  const auto apart = [](const Place& one, const Place& next) {
    return one.member == next.member && one.offset + one.shape.first + one.bytes() != next.offset + next.shape.first;
  };
  return std::ranges::adjacent_find(places_, apart) == places_.end() &&
         std::ranges::all_of(places_, [](const Place& place) { return place.shape.dense_for(place.count); });
}

void PlacedBlocks::copy(Packing direction) {
  if (!packed_) return;
  std::byte* next = blocks_.base;
  for (const Place& place : places_) {
    const TypedElements elements{address_of(buffer_, place.offset), place.count, place.type, place.shape};
    copy_packed(direction, elements, next, job_.packing_comm);
    next += place.bytes();
  }
}

}  // namespace outrigger::mpi
