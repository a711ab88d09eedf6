// A short reduction in two levels: members give their contributions to their leader, and leaders exchange results of
// branches. With each result goes a word: does it ask for the native call (OrderCombine::asks_native())?
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "intranode/branches.hpp"
#include "intranode/combine.hpp"
#include "intranode/meeting.hpp"
#include "intranode/slot_copies.hpp"
#include "intranode/split_sum.hpp"

namespace outrigger::intranode {

class TreeSum {
  using Site = steps::Site;

 public:
  // `bytes`: of the vector, kShortBytes at most.
  TreeSum(Meeting& meeting, const OrderCombine& combine, const SplitSum& split, std::size_t bytes)
      : meeting_(meeting), combine_(combine), split_(split), bytes_(bytes) {}

  // Where a member puts a vector.
  [[nodiscard]] std::byte* vector(std::uint32_t member, std::uint64_t step) const {
    return meeting_.short_slot(member, step, room());
  }
  [[nodiscard]] bool wait_vector(std::uint64_t step, Site site = Site::current()) {
    return meeting_.wait_short_slot(step, room(), site);
  }
  // Before arrive().
  void put(std::uint64_t step, std::span<const std::byte> from) {
    meeting_.copy_in(vector(meeting_.rank(), step), from);
  }

  // A leader combines its own contribution and those of its branch ...
  [[nodiscard]] bool combine_branch(std::uint64_t step, const std::byte* mine, std::byte* into,
                                    Site site = Site::current()) {
    const std::uint32_t branch = split_.branches.of(meeting_.rank());
    std::array<const std::byte*, kMostMembers> from{};
    std::size_t count = 0;
    for (const std::uint32_t member : split_.branches.members(branch)) {
      from.at(count++) = member == meeting_.rank() ? mine : vector(member, step);
      if (member != meeting_.rank() && !wait(member, step, site)) return false;
    }
    evaluate_into(split_.parts[branch], std::span(from).first(count), into);
    return true;
  }
  // ... then the results of all branches. `own`: its branch's; the others come from their leaders.
  [[nodiscard]] bool combine_all(std::uint64_t step, const std::byte* own, std::byte* into,
                                 Site site = Site::current()) {
    std::array<const std::byte*, kMostMembers> from{};
    for (std::uint32_t branch = 0; branch < split_.branches.count(); ++branch) {
      const std::uint32_t leader = split_.branches.leader(branch);
      const bool is_own = branch == split_.branches.of(meeting_.rank());
      from.at(branch) = is_own ? own : vector(leader, step);
      if (is_own) continue;
      if (!wait(leader, step, site)) return false;
      read_answer(leader, step);
    }
    evaluate_into(split_.whole, std::span(from).first(split_.branches.count()), into);
    meeting_.all_arrived();
    return true;
  }

  // A result is in this member's vector(): tells others of it, and whether it asks.
  void publish(std::uint64_t step, Site site = Site::current()) {
    std::byte* const word = answer(meeting_.rank(), step);
    const std::uint64_t asks = combine_.asks_native() ? 1 : 0;
    steps::writes(word, sizeof asks);
    std::memcpy(word, &asks, sizeof asks);
    meeting_.arrive(step, site);
  }
  // After the other has published.
  void read_answer(std::uint32_t other, std::uint64_t step) const {
    std::uint64_t asks = 0;
    steps::reads(answer(other, step), sizeof asks);
    std::memcpy(&asks, answer(other, step), sizeof asks);
    if (asks != 0) combine_.ask_native();
  }

 private:
  // The word follows a vector that is short enough, otherwise it is beside the flag.
  [[nodiscard]] std::size_t padded() const { return (bytes_ + 7) / 8 * 8; }
  [[nodiscard]] std::size_t room() const { return padded() + sizeof(std::uint64_t); }
  [[nodiscard]] std::byte* answer(std::uint32_t member, std::uint64_t step) const {
    return meeting_.slot(member, step, sizeof(std::uint64_t)) + (room() <= kLittleBytes ? padded() : 0);
  }
  [[nodiscard]] bool wait(std::uint32_t member, std::uint64_t step, Site site) {
    if (!meeting_.wait_arrived(member, step, site)) return false;
    steps::reads(vector(member, step), bytes_);
    return true;
  }
  void evaluate_into(const SumTree& tree, std::span<const std::byte* const> from, std::byte* into) const {
    const std::size_t elements = combine_.elements_in(bytes_);
    steps::writes(into, bytes_);
    if (evaluate(tree, combine_.reduction(), from, into, elements) == Bits::ask_native) combine_.ask_native();
  }

  Meeting& meeting_;
  const OrderCombine& combine_;
  const SplitSum& split_;
  std::size_t bytes_;
};

}  // namespace outrigger::intranode
