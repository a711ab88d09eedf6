// This rank's part of a trace (trace/event_memory.hpp) while the program runs. Does nothing unless the user asked for
// one (OUTRIGGER_TRACE); callers check tracing() first.
//
// Thread rule: any thread, except start and stop.
#pragma once

#include <cstdint>
#include <string>

#include "mpi/trace/traced_call.hpp"
#include "trace/event_memory.hpp"

namespace outrigger::mpi {

struct Operation;

// Makes the memory, and records calls from now on. False: no memory, which a line reports.
[[nodiscard]] bool start_tracing(const trace::About& about, const std::string& path);
void stop_tracing();
// Only after start_tracing().
[[nodiscard]] trace::Memory& trace_memory();

void add_event(const trace::Event& event);
// The events' group belongs to a communicator with a name known to users.
void note_group(GroupId group, const CommRecord& record);
// A call that the MPI has accepted, when it returns.
void trace_call(const TracedCall& call);
// An operation has been handed to the service processes.
void trace_post(const Operation& operation, std::uint64_t sequence);

}  // namespace outrigger::mpi
