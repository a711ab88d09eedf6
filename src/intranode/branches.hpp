// The members of a large team in branches, for algorithms in two levels: the members of a branch are near each other.
//
//     branch 0: leader, member, member ... ──┐
//     branch 1: leader, member, member ... ──┴─▶ leaders
//
// Thread rule: any; it does not change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "intranode/core_place.hpp"
#include "intranode/flag.hpp"

namespace outrigger::intranode {

class Branches {
 public:
  // Members of a branch, at most, unless told otherwise.
  static constexpr std::size_t kMost = 8;
  // Bit m: member m.
  using Mask = std::uint64_t;
  static_assert(kMostMembers <= 64);

  // By last-level caches and NUMA nodes. If one member's place is not known, as many branches of members in a row as a
  // branch has members. Nothing if they do not pay.
  [[nodiscard]] static std::optional<Branches> near(std::span<const CorePlace> places);
  // `most` members each, and so few branches of about the same length.
  [[nodiscard]] static Branches in_a_row(std::uint32_t members, std::size_t most);
  // Each member is in one of them. None is empty.
  explicit Branches(std::span<const Mask> branches);

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint32_t of(std::uint32_t member) const { return of_[member]; }
  // In ascending order.
  [[nodiscard]] std::span<const std::uint8_t> members(std::uint32_t branch) const {
    return std::span(members_).subspan(first_[branch], first_[branch + 1] - first_[branch]);
  }
  // A root leads its branch, otherwise the first member does.
  [[nodiscard]] std::uint32_t leader(std::uint32_t branch) const { return members_[first_[branch]]; }
  [[nodiscard]] std::uint32_t leader(std::uint32_t branch, std::uint32_t root) const {
    return of(root) == branch ? root : leader(branch);
  }
  [[nodiscard]] std::vector<Mask> masks() const;
  // Members whose lines a leader loads in an operation.
  [[nodiscard]] std::size_t most_loads() const;
  // Do two levels take a third fewer loads than one?
  [[nodiscard]] bool pay() const;

 private:
  std::uint32_t count_ = 0;
  std::array<std::uint8_t, kMostMembers> of_{};
  std::array<std::uint8_t, kMostMembers> members_{};    // one branch after the other
  std::array<std::uint8_t, kMostMembers + 1> first_{};  // of each branch
};

}  // namespace outrigger::intranode
