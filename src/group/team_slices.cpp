#include "group/team_slices.hpp"

#include <algorithm>

namespace outrigger::group {
namespace {

using intranode::Blocks;
using intranode::Outcome;

// Bytes of a vector from which members read each other's contributions directly, where they can. Slots need a step for
// each 32 KiB, and each step waits for the scheduler where members share cores.
constexpr std::uint64_t kSlicedBytes = std::uint64_t{256} << 10;

// Up to `most` bytes of each block, behind its first `done`.
Row pieces_of(const Row& blocks, std::uint64_t done, std::uint64_t most) {
  Row pieces = blocks;
  for (std::size_t member = 0; member < blocks.bytes.size(); ++member) {
    const std::uint64_t before = std::min(done, blocks.bytes[member]);
    pieces.bytes[member] = std::min(most, blocks.bytes[member] - before);
    pieces.offsets[member] += before;
  }
  return pieces;
}

}  // namespace

Row slices_of(std::uint64_t elements, std::uint64_t element_bytes, std::uint32_t members) {
  std::vector<std::uint64_t> bytes(members);
  for (std::uint32_t member = 0; member < members; ++member) {
    const std::uint64_t first = elements * member / members;
    bytes[member] = (elements * (member + 1) / members - first) * element_bytes;
  }
  return Row(std::move(bytes));
}

bool is_sliced(const intranode::Team& team, std::uint64_t bytes) {
  return team.size() > 1 && team.copies_directly() && bytes >= kSlicedBytes;
}

Outcome reduce_own_slice(intranode::Team& team, const std::byte* from, std::byte* into, const Row& slices,
                         const intranode::Combine& combine, intranode::CallWord call, std::vector<std::byte>& scratch) {
  const std::uint64_t own = slices.bytes[team.rank()];
  scratch.resize(own * team.size());
  const Row contributions(std::vector<std::uint64_t>(team.size(), own));
  // Blocks have no const form; these are read.
  const Blocks given = slices.at(const_cast<std::byte*>(from));
  const Outcome outcome = team.alltoallv(given, contributions.at(scratch.data()), call);
  if (outcome != Outcome::done || own == 0) return outcome;
  std::vector<const std::byte*> members(team.size());
  for (std::uint32_t member = 0; member < team.size(); ++member) {
    members[member] = scratch.data() + contributions.offsets[member];
  }
  const std::uint64_t first = slices.offsets[team.rank()] / combine.element_bytes();
  combine.apply(members, into, first, own / combine.element_bytes());
  return outcome;
}

Outcome reduce_own_block(intranode::Team& team, const std::byte* from, std::byte* into,
                         std::vector<std::uint64_t> bytes, const intranode::Combine& combine,
                         std::vector<std::byte>& scratch) {
  const Row blocks(std::move(bytes));
  const std::uint64_t own = blocks.bytes[team.rank()];
  const std::uint64_t each = kSlicedPiece / team.size() / combine.element_bytes() * combine.element_bytes();
  const std::uint64_t longest = *std::ranges::max_element(blocks.bytes);
  const intranode::CallWord call(CollectiveCall::reduce_scatter, 0, blocks.total());
  // In place, the result would cover blocks that others read in later rounds.
  std::vector<std::byte> apart(from == into && longest > each ? own : 0);
  std::byte* results = apart.empty() ? into : apart.data();
  for (std::uint64_t done = 0; done < longest; done += each) {
    const Row pieces = pieces_of(blocks, done, each);
    const Outcome outcome = reduce_own_slice(team, from, results + std::min(done, own), pieces, combine, call, scratch);
    if (outcome != Outcome::done) return outcome;
  }
  std::ranges::copy(apart, into);
  return Outcome::done;
}

}  // namespace outrigger::group
