// Requests of native collectives: the program's waiting times for them belong to their collective in the report. As
// with offloaded ones, a call on several requests counts for the first known one.
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/mostly_one.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/trace/traced_requests.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

namespace detail {
// A trace adds one, so that all completion calls are checked.
extern constinit std::atomic<std::uint32_t> watched_requests;
// Added if completion calls are published (present_message.hpp).
inline constexpr std::uint32_t kPublishesWaits = 1U << 31;
}  // namespace detail
// True if no completion call need be measured or published.
[[nodiscard]] inline bool nothing_watched() {
  return detail::watched_requests.load(std::memory_order_relaxed) == 0;
}
// True if no request is known.
[[nodiscard]] inline bool no_request_watched() {
  return (detail::watched_requests.load(std::memory_order_relaxed) & ~detail::kPublishesWaits) == 0;
}

// The request of a native call, nonblocking or persistent, that has succeeded.
void watch_request(const CallCount& call, report::LedgerRow& row);
void forget_native_request(MPI_Request request);
// A native MPI_Start of `nanoseconds`, counted if the request is a persistent collective's. `why`: none if it is always
// native.
void count_start(MPI_Request request, std::int64_t nanoseconds, report::NativeReason why);
// A start that is not native: its row and its bytes.
struct WatchedStart {
  report::LedgerRow* row = nullptr;
  std::uint64_t bytes = 0;
};
[[nodiscard]] std::optional<WatchedStart> offloaded_start(MPI_Request request);

// Measures one completion call. Costs one load if no such request is known.
class TimedCompletion {
 public:
  template <class... Words>
  TimedCompletion(const CallSite& site, Call call, Words... words) {
    if (no_request_watched()) return;
    const std::array all{words...};
    begin(site, call, all);
  }
  TimedCompletion(const TimedCompletion&) = delete;
  TimedCompletion& operator=(const TimedCompletion&) = delete;
  ~TimedCompletion() {
    if (active_) end();
  }

 private:
  void begin(const CallSite& site, Call call, std::span<const Word> words);
  void begin_counting(const MPI_Request* requests, int count);
  void find_watched(const MPI_Request* requests, int count);
  void end();
  void end_counting();

  struct Watched {
    const MPI_Request* place = nullptr;  // in the program's array
    MPI_Request request{};               // its value before the call
    report::LedgerRow* row = nullptr;
    std::int64_t started_ns = 0;  // 0: it was waited for before, or this is a test
    std::uint64_t ordinal = 0;    // report::PresentCall
  };

  MostlyOne<Watched> watched_;
  TracedCompletion* traced_ = nullptr;  // in `room_`; nullptr: there is no trace
  alignas(TracedCompletion) std::array<std::byte, sizeof(TracedCompletion)> room_;
  report::LedgerRow* row_ = nullptr;  // of the first of them
  std::int64_t began_ns_ = 0;
  bool tests_ = false;
  bool active_ = false;  // end() has work
};

// MPI_Request_free, which `Handler` does.
template <class Handler>
struct ForgettingRequest {
  template <Call call>
  static int run(const CallSite& site, Word request) {
    const auto* handle = argument<const MPI_Request*>(request);
    if (!no_request_watched() && handle != nullptr) {
      forget_native_request(*handle);
    }
    return Handler::template run<call>(site, request);
  }
};

}  // namespace outrigger::mpi
