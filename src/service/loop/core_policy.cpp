#include "service/loop/core_policy.hpp"

#include <algorithm>
#include <utility>

#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kBetweenRunTimes{1};
constexpr milliseconds kBetweenFreeShares{250};
constexpr milliseconds kBetweenRetries{5};

}  // namespace

void CorePolicy::publish_to(SegmentHeader& header) {
  published_.push_back({&header, lent_to(header.copies, Clock::now())});
  header.service_other_job.store(other_job_, std::memory_order_relaxed);
}

void CorePolicy::publish_other_job(std::int32_t process) {
  other_job_ = process;
  for (const Published& one : published_) one.header->service_other_job.store(process, std::memory_order_relaxed);
}

void CorePolicy::remove(const SegmentHeader& header) {
  std::erase_if(published_, [&](const Published& one) { return one.header == &header; });
}

void CorePolicy::vote() {
  coordinator_->vote({core_taken_ ? steer::kEveryCollective : steer::CollectiveBits{0}, 0, failing_});
}

void CorePolicy::give_up_offloading() {
  failing_ = true;
  vote();
}

void CorePolicy::look_after(Clock::time_point now, const fabric::Business& /*business*/) {
  if (coordinator_ == nullptr) return;
  if (idle_times_ && now - looked_ >= kBetweenRunTimes) {
    looked_ = now;
    read_run_times(now);
    if (watch_.taken() && now - free_since_ >= kBetweenFreeShares) read_free_share(now);
  }
  if (watch_.taken() != core_taken_) {
    core_taken_ = watch_.taken();
    spdlog::info("others {} this core", core_taken_ ? "take" : "have left");
    vote();
  }
  if (coordinator_->wants_retry() && now - retried_ >= kBetweenRetries) {
    retried_ = now;
    coordinator_->retry_changes();
  }
}

// The next copy may take several time slices, so a running copier counts as if it had run all the time.
nanoseconds CorePolicy::lent_to(const CopyQueue& copy_queue, Clock::time_point now) {
  const nanoseconds since(copy_queue.copier_busy_since.load(std::memory_order_relaxed));
  const nanoseconds ran(copy_queue.copier_ran_ns.load(std::memory_order_relaxed));
  return since == nanoseconds{0} ? ran : ran + (now.time_since_epoch() - since);
}

nanoseconds CorePolicy::lent_since_last(Clock::time_point now) {
  nanoseconds sum{0};
  for (Published& one : published_) {
    const nanoseconds lent = std::max(lent_to(one.header->copies, now), one.lent);
    sum += lent - std::exchange(one.lent, lent);
  }
  return sum;
}

void CorePolicy::read_run_times(Clock::time_point now) {
  const std::optional<RunTimes> times = run_times_.read();
  if (!times) return idle_times_.reset();
  const nanoseconds lent = times_.lent + lent_since_last(now);
  times_ = *times;
  times_.lent = lent;
  const bool before = watch_.taken();
  watch_.note(times_, now);
  if (!before && watch_.taken()) {
    free_since_ = now;
    idle_ = idle_times_->read().value_or(nanoseconds{0});
    ran_ = times_.ran + times_.lent;
  }
  for (const Published& one : published_) {
    one.header->service_ran_ns.store(static_cast<std::uint64_t>(times_.ran.count()), std::memory_order_relaxed);
    one.header->service_waited_ns.store(static_cast<std::uint64_t>(watch_.lost().count()), std::memory_order_relaxed);
  }
}

// If the kernel does not tell the core's idle time, try again after a rest.
void CorePolicy::read_free_share(Clock::time_point now) {
  const std::optional<nanoseconds> idle = idle_times_->read();
  const nanoseconds elapsed = now - free_since_;
  const nanoseconds free = idle ? *idle - idle_ + times_.ran + times_.lent - ran_ : elapsed;
  watch_.note_free_share(static_cast<double>(free.count()) / static_cast<double>(elapsed.count()), elapsed, now);
  free_since_ = now;
  idle_ = idle.value_or(nanoseconds{0});
  ran_ = times_.ran + times_.lent;
}

std::optional<fabric::Port::Clock::duration> CorePolicy::sleep_limit(Clock::time_point /*now*/) const {
  if (coordinator_ != nullptr && coordinator_->wants_retry()) return kBetweenRetries;
  if (watch_.taken()) return kBetweenFreeShares;
  return std::nullopt;
}

}  // namespace outrigger::service
