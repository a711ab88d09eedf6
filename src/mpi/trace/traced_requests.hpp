// Requests of collectives in the trace: the calls that make and collect them.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/mostly_one.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/trace/traced_call.hpp"
#include "trace/event.hpp"
#include "trace/request_slots.hpp"

namespace outrigger::mpi {

// Every completion call checks its requests while there is a trace, and is published with live data. Call it when that
// changes.
void watch_all_completions();

// The number of the request; 0: a persistent one, which gets a number at each start.
[[nodiscard]] std::uint64_t remember_request(MPI_Request request, const TracedCall& call, const trace::Event& event);
// A persistent one has been handed to the service processes.
void request_is_posted(MPI_Request request, const TracedPost& post);
void forget_traced_request(MPI_Request request);

// The start of a persistent collective; ignores other requests.
struct TracedStart {
  explicit TracedStart(MPI_Request started);
  TracedStart(MPI_Request started, std::int64_t at_ns) : request(started), began_ns(at_ns) {}
  MPI_Request request{};
  std::int64_t began_ns = 0;
};
void trace_offloaded_start(const TracedStart& start);
void trace_native_start(const TracedStart& start, report::NativeReason why);

// Outputs of a completion call, as far as the program has places for them.
struct CompletionOutputs {
  const int* flag = nullptr;     // Test, Testall, Testany
  const int* index = nullptr;    // Waitany, Testany
  const int* count = nullptr;    // Waitsome, Testsome
  const int* indices = nullptr;  // likewise
};

// One completion call, from its beginning to end().
class TracedCompletion {
 public:
  TracedCompletion(trace::CompletionCall call, const MPI_Request* requests, int count,
                   const CompletionOutputs& outputs);
  void end();
  // One of the requests is in the trace.
  [[nodiscard]] bool watches() const { return watched_.size() != 0; }

 private:
  enum class Place : std::uint8_t { slot, known, persistent };
  struct Watched {
    int index = 0;  // in the array
    MPI_Request request{};
    Place place = Place::slot;
    bool collected = false;
    trace::RequestNote note;
  };
  void watch_known(int index);
  [[nodiscard]] bool is_collected(const Watched& watched) const;
  [[nodiscard]] bool is_named(int index) const;
  // Forgets the collected ones of the watched requests, and returns their number.
  std::size_t forget_collected();

  trace::CompletionCall call_;
  const MPI_Request* requests_;
  int count_;
  CompletionOutputs outputs_;
  MostlyOne<Watched> watched_;
  std::int64_t began_ns_;
};

}  // namespace outrigger::mpi
