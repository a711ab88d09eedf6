// The trees by which an MPI reduces a vector: one for all elements, or one for each part of the vector, as in a ring,
// where each segment begins at another member. And the evaluation of any piece of the vector.
//
// Minima and maxima are the same in every order, unless a NaN or zeros with different signs are among an element's
// contributions: there MPIs differ, even along a vector. With denormals threads differ that flush them or do not. So no
// order is learned for them, any tree will do, and evaluate() returns Bits::ask_native where the order might show. (It
// may say so where a greater number hides the zeros.)
//
// Thread rule: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intranode/sums/sum_tree.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::intranode {

class SumOrder {
 public:
  static constexpr std::size_t kMostParts = 64;
  static constexpr std::uint64_t kRest = UINT64_MAX;

  struct Part {
    std::uint64_t end;  // elements from the part before up to here; the last part's is kRest
    SumTree tree;
    bool operator==(const Part&) const = default;
  };

  // All elements alike.
  explicit SumOrder(SumTree tree) { parts_.push_back({kRest, std::move(tree)}); }
  // Nothing: not 1 to kMostParts parts in ascending order, of as many members each.
  [[nodiscard]] static std::optional<SumOrder> of(std::vector<Part> parts);
  // Reads what text() wrote. Nothing: malformed.
  [[nodiscard]] static std::optional<SumOrder> parse(std::string_view text);

  [[nodiscard]] std::size_t members() const { return parts_.front().tree.members(); }
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  // Such as ((0,1),2), or 683:((0,1),2);1366:((1,2),0);((0,2),1). Without spaces.
  [[nodiscard]] std::string text() const;

  bool operator==(const SumOrder&) const = default;

 private:
  SumOrder() = default;

  std::vector<Part> parts_;
};

// Is the order of no importance, as for minima and maxima?
[[nodiscard]] constexpr bool any_order(const Reduction& reduction) {
  return !rounds(reduction);
}

// The elements from `first` on of a vector, `elements` of them. `contributions` and `out` begin at element `first`;
// otherwise as evaluate() of sum_tree.hpp, whose rules for NaNs and infinities hold.
[[nodiscard]] Bits evaluate_parts(const SumOrder& order, const Reduction& reduction,
                                  std::span<const std::byte* const> contributions, std::byte* out, std::uint64_t first,
                                  std::size_t elements);
[[nodiscard]] inline Bits evaluate(const SumOrder& order, const Reduction& reduction,
                                   std::span<const std::byte* const> contributions, std::byte* out, std::uint64_t first,
                                   std::size_t elements) {
  if (order.parts().size() == 1) [[likely]]
    return evaluate(order.parts().front().tree, reduction, contributions, out, elements);
  return evaluate_parts(order, reduction, contributions, out, first, elements);
}

}  // namespace outrigger::intranode
