// chain: exscan in which each rank's result is the result of the rank before it plus that rank's contribution.
//
// Source: scan_chain.cpp, one rank behind.
//
// Source and code (no paper of its own; steps of scan_chain.cpp):
//     each rank adds its own contribution to its           | that of the rank before it instead:
//        predecessor's result                              |    prefix_chain.cpp `group_rank(count - 1)`
//     the first rank has its own contribution              | has nothing:
//                                                          |    prefix_chain.cpp `Collective::iexscan ? 0 : 1`
//     all else                                             | `prefix_chain`
//
// Picture (4 ranks; A, B, C: contributions; rank 3's is not used):
//
//     rank     0    1       2           3
//              .    A ──▶  A+B  ──▶  A+B+C      each + is with the contribution of the rank before
//
// Order, late arrivals, rounds, costs and restarts are those of the scan, with two differences. The first rank gets
// nothing: its buffer stays as it is, and it waits only for readers of its contribution. If the rank before is on
// another node, both operands come from there (twice the vector), as that rank has no buffer in which to combine them.
#include "engine/algorithms/prefix_chain.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

Task exscan_chain(Operation& operation, LocalRank& rank) {
  return prefix_chain(operation, rank);
}

}  // namespace outrigger::engine
