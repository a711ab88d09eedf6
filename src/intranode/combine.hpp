// How the members' contributions to a reduction become one result.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "intranode/flag.hpp"
#include "intranode/sums/sum_order.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::intranode {

// A cell of a slot holds one. Longer elements are not for this room.
inline constexpr std::uint32_t kMostElementBytes = kSlotBytes / kMostMembers;

class OrderCombine;

class Combine {
 public:
  // 1 to kMostElementBytes.
  explicit Combine(std::uint32_t element_bytes)
      : element_bytes_(element_bytes),
        shift_((element_bytes & (element_bytes - 1)) == 0 ? std::countr_zero(element_bytes) : kNoShift) {}
  virtual ~Combine() = default;

  [[nodiscard]] std::uint32_t element_bytes() const { return element_bytes_; }
  // Whole elements. A division would take longer than the sum of a short vector.
  [[nodiscard]] std::uint64_t elements_in(std::uint64_t bytes) const {
    return shift_ != kNoShift ? bytes >> shift_ : bytes / element_bytes_;
  }
  // The result of `elements` elements of the vectors, from element `first` on. `contributions[member]` and `into` point
  // to element `first` of each vector. `into` overlaps no contribution, or is exactly one of them. Any pieces, in any
  // order, on any member.
  virtual void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
                     std::size_t elements) const = 0;
  // If branches of the members may combine apart; otherwise nullptr.
  [[nodiscard]] virtual const OrderCombine* in_order() const { return nullptr; }

 private:
  static constexpr int kNoShift = -1;

  std::uint32_t element_bytes_;
  int shift_;
};

// One operation of MPI's, elementwise, in an order. Its members are all of the team for reductions; for scan() those up
// to the caller, for exscan() those below it. One object for each call.
class OrderCombine final : public Combine {
 public:
  // `order` outlives it.
  OrderCombine(const Reduction& reduction, const SumOrder& order)
      : Combine(static_cast<std::uint32_t>(reduction.element_bytes())), reduction_(reduction), order_(order) {}

  void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
             std::size_t elements) const override;
  [[nodiscard]] const OrderCombine* in_order() const override { return this; }
  [[nodiscard]] const Reduction& reduction() const { return reduction_; }
  [[nodiscard]] const SumOrder& order() const { return order_; }
  // A piece that this member has combined has bits that only the native call knows (sum_tree.hpp), or another member
  // has told so.
  [[nodiscard]] bool asks_native() const { return asks_native_; }
  void ask_native() const { asks_native_ = true; }

 private:
  Reduction reduction_;
  const SumOrder& order_;
  mutable bool asks_native_ = false;
};

// As OrderCombine, for members up to one, or below it. But asks_native() is about the contributions of all members, so
// that all of them come to the same. `all`: an order of them, which outlives it, and begins like `order` for minima and
// maxima. At most kMostBytes a piece.
class PrefixCombine final : public Combine {
 public:
  static constexpr std::size_t kMostBytes = 4096;

  PrefixCombine(const Reduction& reduction, const SumOrder& order, const SumOrder& all)
      : Combine(static_cast<std::uint32_t>(reduction.element_bytes())),
        prefix_(reduction, order),
        all_(reduction, all) {}

  void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
             std::size_t elements) const override;
  [[nodiscard]] bool asks_native() const { return all_.asks_native(); }

 private:
  OrderCombine prefix_;
  OrderCombine all_;
};

}  // namespace outrigger::intranode
