// Requests of collectives in the trace: which call has made one, and which call has collected it.
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

// So that every completion call is looked at while there is a trace, and none on its account when there is none.
void watch_all_completions();

// The number of the request; 0: it is a persistent one, which gets one each time it is started.
[[nodiscard]] std::uint64_t remember_request(MPI_Request request, const TracedCall& call, const trace::Event& event);
// A persistent one has been handed to the service processes.
void request_is_posted(MPI_Request request, const TracedPost& post);
void forget_traced_request(MPI_Request request);

// The start of a persistent collective. Of any other request nothing is noted.
struct TracedStart {
  explicit TracedStart(MPI_Request started);
  TracedStart(MPI_Request started, std::int64_t at_ns) : request(started), began_ns(at_ns) {}
  MPI_Request request{};
  std::int64_t began_ns = 0;
};
void trace_offloaded_start(const TracedStart& start);
void trace_native_start(const TracedStart& start, report::NativeReason why);

// What a completion call gives to the program, where it has places for that.
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
  // Of the watched ones; how many.
  std::size_t forget_collected();

  trace::CompletionCall call_;
  const MPI_Request* requests_;
  int count_;
  CompletionOutputs outputs_;
  MostlyOne<Watched> watched_;
  std::int64_t began_ns_;
};

}  // namespace outrigger::mpi
