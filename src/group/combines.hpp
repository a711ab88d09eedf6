// The arithmetic of a group's reductions, in Outrigger's own order, as there is no MPI's. Contributions are combined in
// the order of ranks, so the bits do not depend on who combines, or when. In a group of several nodes, those of a node
// are combined in the order of ranks, and then the nodes' partial results in the order of nodes.
#pragma once

#include <memory>
#include <optional>

#include "group/layout.hpp"
#include "intranode/combine.hpp"
#include "protocol/reduction.hpp"
#include "reduce/half_floats.hpp"

namespace outrigger::group {

// Bytes of an element of an enum outrigger_group_type; 0: no such type.
[[nodiscard]] std::uint64_t bytes_of_type(int type);

// nullptr: the operation is not defined for the type. `order`: linear, of all members; it outlives the result.
[[nodiscard]] std::unique_ptr<intranode::Combine> combine_for(int type, int operation,
                                                              const intranode::SumOrder& order);

// A reduction over several nodes. 16-bit floating-point numbers become float on the way, unless nothing but the last
// step combines: so they are rounded once.
class NodesCombine {
 public:
  // Nothing: not defined for the type. `orders` outlive it.
  struct Orders {
    explicit Orders(const Layout& layout);
    intranode::SumOrder node;   // members of the own node
    intranode::SumOrder nodes;  // one partial result each
    std::uint32_t members;      // of the group
    bool has_partial_sums;      // a node has several members
  };
  [[nodiscard]] static std::optional<NodesCombine> of(int type, int operation, const Orders& orders);

  [[nodiscard]] std::uint64_t element_bytes() const { return across_->element_bytes(); }
  // An element of a contribution or partial result on its way.
  [[nodiscard]] std::uint64_t partial_bytes() const { return within_->element_bytes(); }
  [[nodiscard]] bool widens() const { return element_bytes() != partial_bytes(); }
  // Copies contributions, as they go on their way.
  void widen(const std::byte* from, std::byte* into, std::size_t elements) const;
  // Makes contributions a partial result.
  [[nodiscard]] const intranode::Combine& within() const { return *within_; }
  // Makes the nodes' partial results the result.
  void finish(std::span<const std::byte* const> partials, std::byte* into, std::size_t elements) const {
    across_->apply(partials, into, 0, elements);
  }

 private:
  NodesCombine() = default;

  reduce::HalfFloat half_ = reduce::HalfFloat::bfloat16;
  std::unique_ptr<intranode::Combine> within_;
  std::unique_ptr<intranode::Combine> across_;
};

}  // namespace outrigger::group
