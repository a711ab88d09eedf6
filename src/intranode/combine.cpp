#include "intranode/combine.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "intranode/control_area.hpp"

namespace outrigger::intranode {
namespace {

// Intermediate results stay in the first-level cache: all of a block's have so much room together.
constexpr std::size_t kScratchBytes = std::size_t{16} << 10;
constexpr std::size_t kLine = 64;

struct Value {
  const std::byte* at = nullptr;
  int place = -1;  // in scratch; -1: a contribution
};

// Intermediate values that are there at once, at most.
std::uint32_t places_of(std::span<const std::uint8_t> program) {
  std::vector<bool> intermediate;
  std::uint32_t most = 1;
  for (const std::uint8_t entry : program) {
    if (entry == TreeCombine::kJoin) {
      intermediate.pop_back();
      intermediate.pop_back();
    }
    intermediate.push_back(entry == TreeCombine::kJoin);
    const auto now = static_cast<std::uint32_t>(std::count(intermediate.begin(), intermediate.end(), true));
    most = std::max(most, now + 1);  // a result is not put where its right operand is
  }
  return most;
}

}  // namespace

TreeCombine::TreeCombine(const Reduction& reduction, std::vector<std::uint8_t> program)
    : Combine(static_cast<std::uint32_t>(reduction.element_bytes())),
      kernel_(reduce::kernel_of(reduction)),
      program_(std::move(program)),
      places_(places_of(program_)) {
  assert(kernel_ != nullptr && "the operation is defined for the type");
}

TreeCombine TreeCombine::in_rank_order(const Reduction& reduction, std::uint32_t members) {
  std::vector<std::uint8_t> program{0};
  for (std::uint32_t member = 1; member < members; ++member) {
    program.push_back(static_cast<std::uint8_t>(member));
    program.push_back(kJoin);
  }
  return {reduction, std::move(program)};
}

bool TreeCombine::is_tree(std::span<const std::uint8_t> program, std::uint32_t members) {
  std::uint64_t seen = 0;
  std::uint32_t values = 0;
  for (const std::uint8_t entry : program) {
    if (entry == kJoin) {
      if (values < 2) return false;
      --values;
      continue;
    }
    if (entry >= members || (seen >> entry & 1) != 0) return false;
    seen |= std::uint64_t{1} << entry;
    ++values;
  }
  return values == 1 && static_cast<std::uint32_t>(std::popcount(seen)) == members;
}

void TreeCombine::apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t /*first*/,
                        std::size_t elements) const {
  if (elements == 0) return;
  if (program_.size() == 3 && contributions[program_[1]] != into) {
    kernel_(contributions[program_[0]], contributions[program_[1]], into, elements);
    return;
  }
  alignas(64) std::array<std::byte, kScratchBytes> scratch;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const std::size_t block = kScratchBytes / places_ / kLine * kLine / element_bytes();
  for (std::size_t done = 0; done < elements; done += block) {
    const std::size_t offset = done * element_bytes();
    apply_block(contributions, offset, into + offset, std::min(block, elements - done), scratch);
  }
}

void TreeCombine::apply_block(std::span<const std::byte* const> contributions, std::size_t offset, std::byte* into,
                              std::size_t elements, std::span<std::byte> scratch) const {
  std::array<Value, kMostMembers> stack;
  std::size_t depth = 0;
  std::uint64_t free = ~std::uint64_t{0};
  const std::size_t place_bytes = scratch.size() / places_ / kLine * kLine;
  for (std::size_t i = 0; i < program_.size(); ++i) {
    if (program_[i] != kJoin) {
      stack[depth++] = {contributions[program_[i]] + offset, -1};
      continue;
    }
    const Value right = stack[--depth];
    Value& left = stack[depth - 1];
    const bool last = i + 1 == program_.size() && right.at != into;
    const int place = left.place >= 0 ? left.place : std::countr_zero(free);
    std::byte* to = last ? into : scratch.data() + static_cast<std::size_t>(place) * place_bytes;
    kernel_(left.at, right.at, to, elements);
    if (right.place >= 0) free |= std::uint64_t{1} << right.place;
    free &= ~(std::uint64_t{1} << place);
    left = {to, place};
  }
  if (stack[0].at != into) std::memcpy(into, stack[0].at, elements * element_bytes());
}

}  // namespace outrigger::intranode
