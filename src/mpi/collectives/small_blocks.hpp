// Small blocks in private memory travel by way of memory that the rank shares with its service process: the rank copies
// its own blocks there when it posts, and what it has received from there when it completes. Two short copies in its
// own address space cost less than the system call by which a service process reaches private memory, and the service
// process is left with one copy between mapped memory.
//
// Each rank decides for itself: where its blocks are makes no difference to others.
#pragma once

#include <cstdint>

#include "mpi/types/blocks.hpp"

namespace outrigger::mpi {

struct Job;

// Of a side with blocks that are not small (protocol/options/selection.hpp), or more of them, all go the ordinary way.
inline constexpr std::uint64_t kSmallSideBytes = 64U << 10;

// Is one side of an operation, dense and in private memory, better staged?
[[nodiscard]] bool travels_as_small_blocks(const Job& job, const Blocks& blocks);

// Of a side that is handed over: may its memory be kept for others when the rank goes on? It is staged, and little.
[[nodiscard]] bool is_kept(const Job& job, const Blocks& blocks);

}  // namespace outrigger::mpi
