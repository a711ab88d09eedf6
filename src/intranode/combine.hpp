// How the members' contributions to a reduction become one result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "intranode/flag.hpp"
#include "protocol/reduction.hpp"
#include "reduce/reduce.hpp"

namespace outrigger::intranode {

// A cell of a slot holds one. Longer elements are not for this room.
inline constexpr std::uint32_t kMostElementBytes = kSlotBytes / kMostMembers;

class Combine {
 public:
  // 1 to kMostElementBytes.
  explicit Combine(std::uint32_t element_bytes) : element_bytes_(element_bytes) {}
  virtual ~Combine() = default;

  [[nodiscard]] std::uint32_t element_bytes() const { return element_bytes_; }
  // The result of `elements` elements of the vectors, from element `first` on. `contributions[member]` and `into` point
  // to element `first` of each vector. `into` overlaps no contribution, or is exactly one of them. Any pieces, in any
  // order, on any member.
  virtual void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
                     std::size_t elements) const = 0;

 private:
  std::uint32_t element_bytes_;
};

// One operation of MPI's, elementwise, in the order of a tree: a postfix program. A number below kJoin pushes that
// member's contribution. kJoin replaces the two on top by left op right, `left` the one that was pushed first.
//     ((0+1)+(2+3)):  0 1 kJoin 2 3 kJoin kJoin
class TreeCombine final : public Combine {
 public:
  static constexpr std::uint8_t kJoin = 0xff;

  // `program` leaves one value. Its members are all of the team for reductions; for scan() those up to the caller, for
  // exscan() those below it.
  TreeCombine(const Reduction& reduction, std::vector<std::uint8_t> program);
  // (((0+1)+2)+3)...: right wherever the order does not show.
  [[nodiscard]] static TreeCombine in_rank_order(const Reduction& reduction, std::uint32_t members);
  // Is `program` a tree in which each of `members` members is once?
  [[nodiscard]] static bool is_tree(std::span<const std::uint8_t> program, std::uint32_t members);

  void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
             std::size_t elements) const override;

 private:
  void apply_block(std::span<const std::byte* const> contributions, std::size_t offset, std::byte* into,
                   std::size_t elements, std::span<std::byte> scratch) const;

  reduce::Kernel kernel_;
  std::vector<std::uint8_t> program_;
  std::uint32_t places_;  // intermediate values that are there at once, at most
};

}  // namespace outrigger::intranode
