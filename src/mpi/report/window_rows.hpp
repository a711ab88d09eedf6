// How long data stay unused after the calls that deliver them (mpi/windows), in the rows of the calling places. Only if
// the user asked for it (OUTRIGGER_WINDOWS) and for a report; else a call costs one load.
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/mostly_one.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/call_buffers.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/windows/guards.hpp"
#include "protocol/collective_calls.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

namespace detail {
extern constinit std::atomic<bool> measures_windows;
}
[[nodiscard]] inline bool measuring_windows() {
  return detail::measures_windows.load(std::memory_order_relaxed);
}

// In MPI_Init: before the MPI's own initialization, and once calls are counted.
void prepare_windows();
void begin_windows();
// In MPI_Finalize, before the report is written.
void end_windows();

// At the end of a call that has succeeded. The window of a nonblocking one begins at the end of its wait.
void begin_window(const CallCount& call);

// One completion call.
class CompletionWindow {
 public:
  template <class... Words>
  CompletionWindow(const CallSite& site, Call call, Words... words) {
    if (!measuring_windows()) return;
    const std::array all{words...};
    measured_ = std::make_unique<Measured>(site, call, all);
  }
  CompletionWindow(const CompletionWindow&) = delete;
  CompletionWindow& operator=(const CompletionWindow&) = delete;
  ~CompletionWindow() {
    if (measured_) measured_->end();
  }

  struct Started {
    CallKind kind;
    CallBuffers buffers;
  };

 private:
  struct Watched {
    const MPI_Request* place = nullptr;  // in the program's array
    MPI_Request request{};               // its value before the call
    Started started;
  };
  class Measured {
   public:
    Measured(const CallSite& site, Call call, std::span<const Word> words);
    void end();

   private:
    MostlyOne<Watched> started_;
    std::int64_t began_ns_ = 0;
    bool waits_ = false;
  };

  std::unique_ptr<Measured> measured_;  // only if windows are measured
};

}  // namespace outrigger::mpi
