#include <algorithm>
#include <cstring>
#include <thread>

#include "base/futex.hpp"
#include "client/operations/completion_watch.hpp"
#include "client/rank_endpoint.hpp"

namespace outrigger::client {
namespace {

using std::chrono::microseconds;

// While argument memory grows the answer comes through the socket, which wakes nobody.
constexpr microseconds kSleepWhileGrowing{100};
// A service process on a DPU wakes nobody here.
constexpr microseconds kSleepWithDpu{100};

std::string fatal_text(const SegmentHeader& header) {
  const std::size_t length = ::strnlen(header.fatal_text.data(), header.fatal_text.size());
  if (length == 0) return "the keeper of this node ended the job without saying why";
  return {header.fatal_text.data(), length};
}

}  // namespace

CompletionWatch& completion_watch() {
  constinit static thread_local CompletionWatch watch;
  return watch;
}

void RankEndpoint::wait_for_completion(microseconds at_most, bool helps) {
  if (at_most.count() <= 0) return;
  if (inert()) {
    std::this_thread::sleep_for(at_most);
    return;
  }
  CompletionWatch& watch = completion_watch();
  SegmentHeader& shared = header();
  const std::uint32_t known =
      watch.client == serial_ ? watch.completions : shared.completions.load(std::memory_order_acquire);
  watch.client = 0;
  if (waiting_count_.load(std::memory_order_relaxed) != 0) {
    Lock lock(mutex_);
    post_waiting();
    if (!waiting_.empty() && growth_) at_most = std::min(at_most, kSleepWhileGrowing);
    unlock_and_ring(lock);
  }
  if (rdma()) at_most = std::min(at_most, kSleepWithDpu);
  // The service process counts the completion, or asks for help, and then looks whether somebody sleeps; here it is the
  // other way round.
  shared.rank_sleeping.fetch_add(1, std::memory_order_seq_cst);
  if (shared.completions.load(std::memory_order_seq_cst) == known && !(helps && helper_.wanted())) {
    futex_wait(shared.completions, known, at_most);
  }
  shared.rank_sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

bool RankEndpoint::enter_wait() {
  return !inert() && helper_.enter();
}

void RankEndpoint::leave_wait() {
  if (!inert()) helper_.leave();
}

bool RankEndpoint::help() {
  if (inert() || !helper_.help()) return false;
  // Where there is no copier the service process sleeps until the last copy is done.
  if (helper_.alone() && !helper_.has_copies() && header().service_sleeping.load(std::memory_order_seq_cst) != 0) {
    ring_doorbell();
  }
  return true;
}

bool RankEndpoint::fatal_was_said() const {
  return !inert() && header().fatal.load(std::memory_order_acquire) == static_cast<std::uint32_t>(FatalState::said);
}

std::optional<std::string> RankEndpoint::fatal() {
  if (inert()) return std::nullopt;
  const SegmentHeader& shared = header();
  if (shared.fatal.load(std::memory_order_acquire) != 0) return fatal_text(shared);
  std::optional<std::string> lost = control_.lost();
  // The keeper writes its reason before it closes the connection.
  if (lost && shared.fatal.load(std::memory_order_acquire) != 0) return fatal_text(shared);
  return lost;
}

}  // namespace outrigger::client
