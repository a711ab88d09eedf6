// What this rank has counted, by the names of report/counters.hpp: for programs and tools that ask while it runs.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

// Of everything that was called; none: counting has not begun.
[[nodiscard]] std::optional<std::uint64_t> counter_value(std::size_t counter);

// Of a valid communicator, and of one call where one is named. None: not counted, or with other communicators.
[[nodiscard]] std::optional<std::uint64_t> counter_value(std::size_t counter, MPI_Comm comm,
                                                         const std::optional<CallKind>& kind);

}  // namespace outrigger::mpi
