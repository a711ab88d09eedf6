// The order in which an MPI reduces the contributions of p members, and its evaluation in exactly that order.
//
// A tree has a leaf for each contribution and a node for each operation, e.g. ((0,1),(2,3)). Sums and products of
// floating-point numbers have the same bits by equal trees. order_learner.hpp finds the trees of an MPI.
//
//     cost      one load from each contribution and one store for each element; intermediate results stay in registers
//               (balanced and linear trees of 2 to 8 members, sums and products of float and double) or in blocks that
//               fit in the L1 cache (all others)
//     bounds    kMostMembers; no allocation in evaluate(), 16 KiB of stack
//
// Bits, for sums and products:
//     rounding  each operation is rounded to the type; nothing is fused or reassociated
//     infinities, signed zeros, denormals   as IEEE 754 has it in this tree, hence as natively
//     modes     rounding mode, FTZ and DAZ are those of the calling thread (MXCSR), as natively. Natively a node is
//               computed by one member or another: members with different modes get bits that depend on who computes
//     NaN       of two NaNs the processor passes on one, by the order of operands. A compiler chooses it, and may
//               change it along a vector. So evaluate() returns Bits::ask_native if a contribution has a NaN, and the
//               caller must take the result of the native call. NaNs reach the root of the tree, so none is missed.
//               All NaNs that operations make themselves (infinity minus infinity) are the same
// Whether it asks depends on the contributions alone, not on the thread's modes, unless `out` is one of them. So
// members that combine the same contributions agree without a word.
// Minima and maxima need no tree; sum_order.hpp says when they ask the native call. All other reductions, such as those
// of integers, are done in the order of the tree, too, and never ask.
//
// Thread rule: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/reduction.hpp"

namespace outrigger::intranode {

enum class Bits : std::uint8_t {
  exact,
  ask_native,  // a contribution has a NaN, or the result depends on more than the tree: only the native call knows it
};

class SumTree {
 public:
  static constexpr std::size_t kMostMembers = 64;

  // Operands: a contribution where less than members(), otherwise the result of node (operand - members()).
  struct Node {
    std::uint8_t left;
    std::uint8_t right;
    constexpr bool operator==(const Node&) const = default;
  };

  // Members in their order, 1 to kMostMembers. Balanced: the largest power of two of operands are combined in pairs,
  // after the first members have been combined in pairs down to that number; as recursive doubling does it.
  [[nodiscard]] static SumTree balanced(std::size_t members);
  [[nodiscard]] static SumTree linear(std::size_t members);
  // Nothing: not a tree of all contributions, each once.
  [[nodiscard]] static std::optional<SumTree> of(std::size_t members, std::vector<Node> nodes);
  // Reads what text() wrote. Nothing: malformed.
  [[nodiscard]] static std::optional<SumTree> parse(std::string_view text);

  [[nodiscard]] std::size_t members() const { return members_; }
  // In the order of evaluation: each after its operands. The last is the root; none with one member.
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  // Such as ((0,1),(2,3)). At most kMostText characters.
  [[nodiscard]] std::string text() const;
  static constexpr std::size_t kMostText = 8 * kMostMembers;

  bool operator==(const SumTree&) const = default;

 private:
  friend Bits evaluate(const SumTree&, const Reduction&, std::span<const std::byte* const>, std::byte*, std::size_t);
  enum class Shape : std::uint8_t { other, balanced, linear };

  SumTree(std::size_t members, std::vector<Node> nodes);
  // Not by a kernel for its shape.
  [[nodiscard]] Bits evaluate_otherwise(const Reduction& reduction, std::span<const std::byte* const> contributions,
                                        std::byte* out, std::size_t elements) const;
  [[nodiscard]] Bits evaluate_blocks(const Reduction& reduction, std::span<const std::byte* const> contributions,
                                     std::byte* out, std::size_t elements) const;

  std::size_t members_;
  std::vector<Node> nodes_;
  std::vector<std::uint8_t> places_;  // of each node: the block that has its result until it is used
  Shape shape_ = Shape::other;
};

// Does evaluate() know whether it has native's bits? So for sums, products, minima and maxima of float, double and long
// double, and sums of complex numbers.
[[nodiscard]] bool is_evaluated(const Reduction& reduction);

// `elements` of a result, or of a contribution. The reduction has is_evaluated() and rounds, so NaNs of contributions
// are in the result, too.
[[nodiscard]] bool has_nans(const Reduction& reduction, const std::byte* vector, std::size_t elements);

// `elements` of each of tree.members() contributions, by member, into `out`. `out` may be one of the contributions;
// otherwise it overlaps none. All addresses are aligned to the type, or the processor has no need of it.
//
// With Bits::ask_native `out` is filled, too, and is not to be used: a caller that may have to ask keeps the
// contributions until it knows that all members that reduce a part had Bits::exact.
[[nodiscard]] Bits evaluate(const SumTree& tree, const Reduction& reduction,
                            std::span<const std::byte* const> contributions, std::byte* out, std::size_t elements);

}  // namespace outrigger::intranode
