// The tree of a barrier: ranks of a service process, service processes of a node, nodes.
//
//     nodes                 0 ──── 1        binomial: the parent of a node's number has its lowest bit cleared
//                           │└──── 2 ── 3
//     service processes     0 ── 1   ...    the first of the node is the parent of its others
//     ranks                 first ── others of that service process
//
// The first rank of each level stands for that level, so each rank but the first of all has one parent.
#pragma once

#include <optional>

#include "engine/core/group.hpp"
#include "engine/posted_operation.hpp"

namespace outrigger::engine {

// nullopt at the root.
[[nodiscard]] std::optional<GroupRank> barrier_parent(const Membership& group, GroupRank rank);

// A barrier moves no bytes. This gives it the pairs of its tree: one byte for the parent, which is never read.
void set_barrier_pairs(PostedOperation& operation, const Membership& group);

}  // namespace outrigger::engine
