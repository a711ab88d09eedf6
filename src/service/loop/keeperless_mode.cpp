#include "service/loop/keeperless_mode.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "protocol/shared/life_lock.hpp"

namespace outrigger::service {
namespace {

constexpr std::chrono::milliseconds kBetweenLooksAtProcesses{1};

bool has_ended(const UniqueFd& exit_event) {
  pollfd ended{exit_event.get(), POLLIN, 0};
  return !exit_event.valid() || ::poll(&ended, 1, 0) > 0;
}

}  // namespace

void KeeperlessMode::forget(WorldRank rank) {
  std::erase_if(ranks_, [rank](const Rank& known) { return known.rank == rank; });
}

void KeeperlessMode::show_life(UniqueFd segment) {
  if (take_life_lock(segment.get())) shown_.push_back(std::move(segment));
}

bool KeeperlessMode::begin(Clock::time_point now) {
  began_ = now;
  const auto can_be_watched = [](const Rank& rank) { return rank.pid > 0 && rank.pid != ::getpid(); };
  if (ranks_.empty() || !std::ranges::all_of(ranks_, can_be_watched)) return false;
  for (Rank& rank : ranks_) rank.exit_event.reset(static_cast<int>(::syscall(SYS_pidfd_open, rank.pid, 0)));
  return true;
}

// A rank that ends in order cannot tell its keeper, but withdraws its name from the segment.
bool KeeperlessMode::has_left(Rank& rank, Clock::time_point now) const {
  const bool uses_services = rank.segment.header().rank_base_address.load(std::memory_order_acquire) != 0;
  rank.uses_services = rank.uses_services || uses_services;
  return rank.uses_services ? !uses_services : now - began_ > kForWelcome;
}

void KeeperlessMode::look_after(Clock::time_point now, const fabric::Business& /*business*/) {
  const bool looks_at_processes = now - looked_ >= kBetweenLooksAtProcesses;
  if (looks_at_processes) looked_ = now;
  std::erase_if(ranks_, [&](Rank& rank) {
    const bool gone = has_left(rank, now) || (looks_at_processes && has_ended(rank.exit_event));
    if (gone) gone_.push_back(rank.rank);
    return gone;
  });
}

std::vector<int> KeeperlessMode::descriptors() const {
  std::vector<int> all;
  for (const Rank& rank : ranks_) {
    if (rank.exit_event.valid()) all.push_back(rank.exit_event.get());
  }
  return all;
}

std::optional<fabric::Port::Clock::duration> KeeperlessMode::sleep_limit(Clock::time_point now) const {
  if (std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.exit_event.valid() && rank.uses_services; })) {
    return std::nullopt;
  }
  return std::max<Clock::duration>(began_ + kForWelcome - now, kBetweenLooksAtProcesses);
}

}  // namespace outrigger::service
