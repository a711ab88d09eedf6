#include "mpi/intranode/team_blocks.hpp"

#include <algorithm>

#include "mpi/collectives/arguments.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"

namespace outrigger::mpi {
namespace {

// Any buffer may be memory that only the MPI can copy.
bool is_in_a_row(const TeamSide& side, std::int64_t count) {
  return side.shape.dense_for(count) && !accelerator_loaded();
}

std::size_t bytes_of(const TeamSide& side, std::int64_t count) {
  return static_cast<std::size_t>(bytes_in(count, side.shape));
}

}  // namespace

TeamBlock::TeamBlock(const Job& job, RankTeam& team, std::size_t which, const TeamSide& side, std::int64_t count)
    : job_(job), side_(side), count_(count) {
  const std::size_t bytes = bytes_of(side, count);
  if (bytes == 0) return;
  packed_ = !is_in_a_row(side, count);
  bytes_ = {packed_ ? team.scratch(which, bytes) : address_of(side.buffer, side.shape.first), bytes};
}

void TeamBlock::copy(Packing direction) {
  if (!packed_) return;
  const TypedElements elements{address_of(side_.buffer, 0), count_, side_.type, side_.shape};
  copy_packed(direction, elements, bytes_.data(), job_.packing_comm);
}

TeamBlocks::TeamBlocks(const Job& job, RankTeam& team, std::size_t which, const TeamArguments& arguments,
                       const TeamSide& side)
    : job_(job), arguments_(arguments), side_(side), members_(team.size()) {
  const std::int64_t all = side.count * static_cast<std::int64_t>(members_);
  if (!side.listed && is_in_a_row(side, all)) {
    blocks_ = intranode::Blocks::regular(address_of(side.buffer, side.shape.first), bytes_of(side, side.count));
    return;
  }
  for (std::uint32_t member = 0; !packed_ && member < members_; ++member) {
    packed_ = !is_in_a_row(side, arguments.count_at(side, member));
  }
  packed_ ? lay_out_packed(team, which) : lay_out_in_buffer(team.lists(which));
}

// Offsets are from the first byte of all, and so never negative.
void TeamBlocks::lay_out_in_buffer(RankTeam::Lists& lists) {
  std::int64_t lowest = 0;
  for (std::uint32_t member = 0; member < members_; ++member) {
    lowest = std::min(lowest, arguments_.offset_at(side_, member));
  }
  lists.bytes.resize(members_);
  lists.offsets.resize(members_);
  for (std::uint32_t member = 0; member < members_; ++member) {
    lists.bytes[member] = bytes_of(side_, arguments_.count_at(side_, member));
    lists.offsets[member] = static_cast<std::uint64_t>(arguments_.offset_at(side_, member) - lowest);
  }
  std::byte* base = address_of(side_.buffer, lowest + side_.shape.first);
  blocks_ = intranode::Blocks::irregular(base, lists.bytes.data(), lists.offsets.data());
  if (!side_.listed) blocks_.each = bytes_of(side_, side_.count);
}

void TeamBlocks::lay_out_packed(RankTeam& team, std::size_t which) {
  RankTeam::Lists& lists = team.lists(which);
  lists.bytes.resize(members_);
  lists.offsets.resize(members_);
  std::uint64_t total = 0;
  for (std::uint32_t member = 0; member < members_; ++member) {
    lists.bytes[member] = bytes_of(side_, arguments_.count_at(side_, member));
    lists.offsets[member] = total;
    total += lists.bytes[member];
  }
  blocks_ = intranode::Blocks::irregular(team.scratch(which, total), lists.bytes.data(), lists.offsets.data());
  if (!side_.listed) blocks_ = intranode::Blocks::regular(blocks_.base, bytes_of(side_, side_.count));
}

void TeamBlocks::copy(Packing direction, std::uint32_t member) {
  const std::span<std::byte> packed = blocks_.of(member);
  if (packed.empty()) return;
  const TypedElements elements{address_of(side_.buffer, arguments_.offset_at(side_, member)),
                               arguments_.count_at(side_, member), side_.type, side_.shape};
  copy_packed(direction, elements, packed.data(), job_.packing_comm);
}

}  // namespace outrigger::mpi
