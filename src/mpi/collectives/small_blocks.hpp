// Small blocks in private memory go through memory that the rank shares with its service process. The rank copies its
// send blocks there when it posts, and its receive blocks from there when it completes. Two short copies in its own
// address space cost less than the system call by which a service process reaches private memory. The service process
// then makes one copy between mapped memory. The same holds for longer vectors of reductions between nodes that
// have no root: service processes read and write them in several pieces.
//
// Each rank decides for itself: the place of its blocks makes no difference to other ranks.
#pragma once

#include <cstdint>

#include "mpi/types/blocks.hpp"

namespace outrigger::mpi {

struct Job;

// Limit of a side's bytes. A larger side is not staged, nor is one with blocks that are not small
// (protocol/options/selection.hpp), but for a reduction between nodes without a root.
inline constexpr std::uint64_t kSmallSideBytes = 64U << 10;

// True if one side of an operation, dense and in private memory, is better staged. `in_pieces`: of a reduction between
// nodes without a root.
[[nodiscard]] bool travels_as_small_blocks(const Job& job, const Blocks& blocks, bool in_pieces);

// True if the memory of a side that is handed over may be kept for peers while the rank goes on: it is staged and
// small.
[[nodiscard]] bool is_kept(const Job& job, const Blocks& blocks);

}  // namespace outrigger::mpi
