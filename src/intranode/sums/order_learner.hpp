// Learns the order in which an MPI reduces, from results alone.
//
// Source: P. Xie, Y. Gao, Y. Wang, J. Xue: Revealing Floating-Point Accumulation Orders in Software/Hardware
// Implementations (FPRev), arXiv:2411.00442. A probe is a sum of M, -M and ones, with M so large that M + 1 = M. Ones
// that are added before M and -M meet are lost. The result counts the others. So
//
//     result(i has M, j has -M, the others 1) = leaves - size of the least subtree with both i and j
//
// and the sizes for all pairs give the tree. The source has one probe for each call and chooses the next by the result.
// Here all members make the same calls whatever they see, so no member waits for another that stopped; and each element
// of a vector is another probe.
//
//     products   i has the smallest denormal d, j a large power of two, the others 1 + 2^-8: d * (1 + 2^-8)^k = d. The
//                result counts the leaves outside of i's side where i and j meet; two probes for a pair give the size
//     min, max   have no order to learn (sum_order.hpp)
//
// Two members have one tree, and no probe: vectors alone show that the MPI adds as C does. Three and more have two
// sweeps of all probes. The first finds the parts of the vector that have the same sizes, the second confirms them in
// each element. Vectors of pseudo-random numbers are then reduced natively and in our order, and must have the same
// bits: numbers of like and of very different magnitudes, cancellation, overflow, denormals, infinities, signed zeros
// and NaNs. No contribution is a NaN; those that operations make must be the same (sum_tree.hpp). An MPI that adds in
// another precision, fuses, or orders by arrival is refused.
//
//     cost      learning_calls() native calls of the whole vector; memory of twice the vector and 8 bytes an element
//     bounds    SumTree::kMostMembers, SumOrder::kMostParts. A sweep has kMostRounds calls, or more where a vector is
//     too
//               short to hold all probes. Up to 16 members (11 for products) every element has every probe; beyond,
//               there is one part, and vectors of random numbers find the elements that differ
//
// Thread rule: any one thread at a time for a communicator, as for the native calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "intranode/sums/sum_order.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::intranode {

// The MPI's own reduction of one whole vector. Collective. `contribution`: Learning::elements of them; the first
// Learning::returned of `result` are filled. False: the MPI returned an error.
using NativeReduction = std::function<bool(const std::byte* contribution, std::byte* result)>;

// The members agree on `members`, `reduction`, `elements` and `whole`.
struct Learning {
  std::size_t member = 0;  // the calling one
  std::size_t members = 0;
  Reduction reduction;
  std::size_t elements = 0;  // of each contribution

  // The result here is that of the contributions 0 to summed - 1. Scan: member + 1. Exscan: member. Others: members.
  std::size_t summed = 0;
  // The elements that the result here has. Reduce: all at the root, none elsewhere. Reduce_scatter: one's own block.
  std::size_t first = 0;
  std::size_t returned = 0;
  // Does each member get all elements or none? False for reduce_scatter(_block).
  bool whole = true;
  // Calls that come on top of learn(), for learning_time(): each takes as long as one with random numbers.
  std::size_t more_calls = 0;

  [[nodiscard]] static Learning allreduce(std::size_t member, std::size_t members, const Reduction& reduction,
                                          std::size_t elements) {
    return {member, members, reduction, elements, members, 0, elements, true};
  }
};

enum class SumRefusal : std::uint8_t {
  none,
  unsupported,    // not is_supported()
  native_failed,  // an error of the MPI
  varies,         // between calls, or has too many parts
  no_tree,        // no tree has these results
  other_bits,     // of pseudo-random vectors in the learned order
  asks,           // too many results not by order only (NaNs)
};
// For reports, one word: varies.
[[nodiscard]] std::string_view name_of(SumRefusal refusal);

struct Learned {
  // Nothing: refused. It has the contributions 0 to summed - 1 (one where there are none), and the numbers of elements
  // are those of the contributions. A member that gets no result to learn from has them in the order of their ranks.
  std::optional<SumOrder> order;
  SumRefusal refusal = SumRefusal::none;
};

// is_evaluated(), at least one element, 1 to SumTree::kMostMembers members.
[[nodiscard]] bool is_supported(const Learning& learning);
// Native calls that learn() makes. 0: not supported, or any_order().
[[nodiscard]] std::size_t learning_calls(const Learning& learning);
// The time of a call of the program, natively, in bytes that it would take as long to add. All members come to the
// same.
[[nodiscard]] std::uint64_t time_of_call(const Learning& learning);
// The time of learn() in the same unit, at most.
[[nodiscard]] std::uint64_t learning_time(const Learning& learning);

// Collective: all members make learning_calls() calls of `native`, whatever the results are. Only an error of `native`
// ends it earlier, and MPI's errors are the same at all members or fatal.
//
// The caller agrees afterwards: the order may be used if no member was refused, and, where all members evaluate parts
// of one result (allreduce), if all have the same order.
[[nodiscard]] Learned learn(const NativeReduction& native, const Learning& learning);

// Collective: compares `vectors` vectors of pseudo-random numbers, the ones from `first_vector` on, with as many calls.
// For orders of earlier jobs, before their first use. A member that gets no result may give any order of
// `learning.summed` contributions.
[[nodiscard]] SumRefusal verify(const NativeReduction& native, const Learning& learning, const SumOrder& order,
                                std::uint64_t first_vector, std::size_t vectors);

// Collective: reduces such vectors of any number of members both natively and by `other`. Bits must be the same, but
// where those of `other` are a NaN. All elements are returned to all members.
[[nodiscard]] SumRefusal compare(const NativeReduction& native, const NativeReduction& other, const Learning& learning,
                                 std::uint64_t first_vector, std::size_t vectors);

// A contribution that changes no sum or product: `elements` of it.
[[nodiscard]] std::vector<std::byte> neutral_vector(const Reduction& reduction, std::size_t elements);
// One element of a contribution that makes a sum or product of such elements another one, and of neutral ones not.
[[nodiscard]] std::vector<std::byte> marked_element(const Reduction& reduction, bool marked);
// Had a contribution a mark? `element`: of the result.
[[nodiscard]] bool is_marked(const Reduction& reduction, std::span<const std::byte> element);

}  // namespace outrigger::intranode
