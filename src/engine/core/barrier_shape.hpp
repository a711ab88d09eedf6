// The tree of a barrier: ranks of a service process, service processes of a node, nodes.
//
//     nodes                 0 ──── 1        binomial: the parent of a node's number has its lowest bit cleared
//                           │└──── 2 ── 3
//     service processes     0 ── 1   ...    the node's first, and its others
//     ranks                 first ── others of that service process
//
// The first rank of each stands for it, so each rank has one parent, but the first of all.
#pragma once

#include <optional>

#include "engine/core/group.hpp"
#include "engine/posted_operation.hpp"

namespace outrigger::engine {

// Nothing: the rank is the root.
[[nodiscard]] std::optional<GroupRank> barrier_parent(const Membership& group, GroupRank rank);

// Gives a barrier, which moves no bytes, the pairs of its tree: one byte for the parent to wait for, that nobody reads.
void set_barrier_pairs(PostedOperation& operation, const Membership& group);

}  // namespace outrigger::engine
