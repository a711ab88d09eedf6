// This rank's counters, by the names of report/counters.hpp: for programs and tools, while it runs.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

// Over all calls; nullopt: counting has not begun.
[[nodiscard]] std::optional<std::uint64_t> counter_value(std::size_t counter);

// The value for a valid communicator, and for one call if `kind` is set. nullopt: not counted, or only together with
// other communicators.
[[nodiscard]] std::optional<std::uint64_t> counter_value(std::size_t counter, MPI_Comm comm,
                                                         const std::optional<CallKind>& kind);

}  // namespace outrigger::mpi
