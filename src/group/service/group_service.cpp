#include "group/service/group_service.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/futex.hpp"

namespace outrigger::group {
namespace {

// Without a heartbeat of the process.
constexpr std::chrono::seconds kHung{10};
constexpr std::chrono::seconds kOwnPause{1};  // between two looks: the whole job was stopped, the process as well
constexpr std::chrono::seconds kMostForAPiece{5};
// Counted: this process may be stopped as well.
constexpr std::chrono::milliseconds kBetweenLooksAtTheEnd{1};
constexpr int kLooksAtTheEnd = 5000;
// A node whose service process cannot be reached: its members may say why.
constexpr std::chrono::milliseconds kForAReason{1000};
// Without a post, until a thread that awaits one goes.
constexpr std::chrono::seconds kIdle{1};

}  // namespace

GroupService::GroupService(ServiceArea area, MemberProcesses process, const Layout& layout, MemberWatch& watch)
    : area_(std::move(area)), process_(std::move(process)), layout_(layout), watch_(watch), owner_(::getpid()) {}

GroupService::~GroupService() {
  // A child of this process has no shared memory.
  if (::getpid() != owner_) return;
  const std::uint64_t beats = head().beats.load(std::memory_order_relaxed);
  area_.seat(layout_.place()).has_left.store(true, std::memory_order_seq_cst);
  area_.ring();
  if (have_all_left()) wait_for_its_end(beats);
}

bool GroupService::have_all_left() const {
  for (std::uint32_t place = 0; place < area_.members(); ++place) {
    const bool has_left = area_.seat(place).has_left.load(std::memory_order_seq_cst);
    if (!has_left && !watch_.has_ended(layout_.here()[place])) return false;
  }
  return true;
}

void GroupService::wait_for_its_end(std::uint64_t beats) const {
  for (int looks = 0; head().beats.load(std::memory_order_relaxed) == beats && !has_ended(); ++looks) {
    if (looks == kLooksAtTheEnd) return kill_process();
    std::this_thread::sleep_for(kBetweenLooksAtTheEnd);
  }
}

bool GroupService::begin(bool prefers_service) {
  ++calls_;
  std::atomic<std::uint64_t>& way = head().ways[calls_ % head().ways.size()];
  const std::uint64_t mine =
      calls_ << 1 | static_cast<std::uint64_t>(prefers_service && (layout_.nodes() > 1 || !has_ended()));
  std::uint64_t found = way.load(std::memory_order_acquire);
  while (found >> 1 < calls_) {
    if (way.compare_exchange_weak(found, mine, std::memory_order_acq_rel)) return (mine & 1) != 0;
  }
  // Members pass no call that is the service process's.
  return found == (calls_ << 1 | 1);
}

bool GroupService::begin_ahead() {
  if (posted() - settled() == kPostsAhead || area_.is_by_members(calls_ + 1)) return false;
  if (begin(true)) return true;
  --calls_;  // it begins again, with the same answer
  return false;
}

Post& GroupService::next_post() {
  Post& post = seat().post(posted() + 1);
  post.number = calls_;
  post.type = post.operation = 0;
  post.root = 0;
  // Others are not read.
  std::fill_n(post.from.begin(), layout_.size(), PostedBlock{});
  std::fill_n(post.into.begin(), layout_.size(), PostedBlock{});
  return post;
}

// The last member's post wakes the process.
std::uint64_t GroupService::put() {
  const std::uint64_t number = posted() + 1;
  seat().posted.store(number, std::memory_order_seq_cst);
  if (have_all_posted(number)) area_.ring();
  return number;
}

GroupService::Served GroupService::wait(std::chrono::milliseconds timeout, std::chrono::milliseconds limit) {
  const std::uint64_t number = first();
  const Clock::time_point began = Clock::now();
  for (;;) {
    const std::uint32_t seen = head().changes.load(std::memory_order_acquire);
    if (const Served served = look(number); served != Served::pending) return served;
    if (watch_.failure().is_set()) {
      stop();
      return Served::failed;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - (Clock::now() - began));
    if (left.count() <= 0) return Served::pending;
    check(number, timeout);
    futex_wait(head().changes, seen, std::min(left, kBetweenLooks));
  }
}

std::uint64_t GroupService::finish_pieces(std::byte* into, std::uint64_t bytes) const {
  const PieceCount whole = PieceCount::of(head().pieces.load(std::memory_order_acquire));
  if (whole.post != first() || whole.pieces == 0) return 0;
  const std::uint64_t begin = (whole.pieces - 1) * piece_bytes(area_.members());
  const std::uint64_t end = std::min(bytes, begin + piece_bytes(area_.members()));
  if (into != nullptr) std::memcpy(into + begin, head().results[(whole.pieces - 1) % 2].data(), end - begin);
  return end;
}

// The process waits for all members after a post that it has returned.
void GroupService::settle() {
  const std::uint64_t number = first();
  seat().settled.store(number, std::memory_order_seq_cst);
  if (head().returned.load(std::memory_order_relaxed) == number) area_.ring();
}

void GroupService::want_ends() {
  seat().wanted.store(posted(), std::memory_order_seq_cst);
  if (has_posts() && look(first()) != Served::pending) seat().ring();
}

bool GroupService::await_need(const std::function<std::chrono::milliseconds()>& timeout) {
  Clock::time_point busy = Clock::now();
  std::uint64_t ended = 0;  // before the last sleep
  while (!is_woken_.exchange(false)) {
    const std::uint32_t seen = seat().alarm.load(std::memory_order_seq_cst);
    if (has_posts()) {
      busy = Clock::now();
      const std::uint64_t number = first();
      const Served served = look(number);
      if (served == Served::by_members || watch_.failure().is_set()) return true;
      if (served == Served::pending) check(number, timeout());
      const bool is_wanted = seat().wanted.load(std::memory_order_seq_cst) >= number;
      if (served == Served::done && (is_wanted || ended == number)) return true;
      ended = served == Served::done ? number : 0;
    } else if (Clock::now() - busy >= kIdle) {
      return false;
    }
    if (!is_woken_) futex_wait(seat().alarm, seen, kBetweenLooks);
  }
  return false;
}

void GroupService::wake() {
  is_woken_ = true;
  seat().ring();
}

// The process may have ended after its last word.
GroupService::Served GroupService::look(std::uint64_t number) {
  if (head().completed.load(std::memory_order_seq_cst) >= number) return Served::done;
  const bool ended = has_ended();
  if (head().completed.load(std::memory_order_seq_cst) >= number) return Served::done;
  const bool returned = head().returned.load(std::memory_order_acquire) >= number;
  if (returned || (ended && layout_.nodes() == 1)) return Served::by_members;
  if (!ended) return Served::pending;
  (void)watch_.fail({.kind = FailureKind::service_died, .about = layout_.here().front(), .noticed = layout_.rank()});
  return Served::failed;
}

void GroupService::check(std::uint64_t number, std::chrono::milliseconds timeout) {
  const std::scoped_lock held(lock_);
  const Clock::time_point now = Clock::now();
  if (std::exchange(checked_, number) != number) {
    began_ = last_beat_ = last_move_ = now;
    next_check_ = now + kBetweenLooks;
  }
  if (now < next_check_) return;
  next_check_ = now + kBetweenLooks;
  watch_.look();
  std::optional<std::uint32_t> late;
  for (std::uint32_t place = 0; place < area_.members(); ++place) {
    const std::uint32_t member = layout_.here()[place];
    if (has_posted(place, number)) continue;
    late = place;
    // It may have posted before it ended.
    if (watch_.has_ended(member) && !has_posted(place, number)) (void)watch_.fail(watch_.end_of(member));
  }
  if (!late) {
    if (layout_.nodes() > 1) check_nodes(timeout);
    return look_at_beats();
  }
  last_beat_ = now;
  last_move_ = now;
  if (now - began_ >= timeout) fail_late(layout_.here()[*late], now - began_);
}

bool GroupService::has_posted(std::uint32_t place, std::uint64_t number) const {
  return area_.seat(place).posted.load(std::memory_order_seq_cst) >= number;
}

bool GroupService::have_all_posted(std::uint64_t number) const {
  for (std::uint32_t place = 0; place < area_.members(); ++place) {
    if (!has_posted(place, number)) return false;
  }
  return true;
}

void GroupService::check_nodes(std::chrono::milliseconds timeout) {
  if (Failure failure = Failure::of(head().failure.load(std::memory_order_acquire)); failure.is_set()) {
    failure.noticed = layout_.rank();
    (void)watch_.fail(failure);
    return;
  }
  const std::uint64_t moves = head().moves.load(std::memory_order_relaxed);
  if (std::exchange(moves_, moves) != moves) last_move_ = Clock::now();
  const std::uint64_t lost = head().lost.load(std::memory_order_acquire);
  const std::uint64_t awaited = lost | head().waits_for.load(std::memory_order_relaxed);
  for (std::uint32_t node = 0; node < layout_.nodes(); ++node) {
    if ((awaited >> node & 1) == 0) continue;
    check_node(node, (lost >> node & 1) != 0);
    if (const auto waited = Clock::now() - std::max(began_, last_move_); waited >= timeout) {
      fail_late(layout_.members(node).front(), waited);
    }
  }
}

void GroupService::check_node(std::uint32_t node, bool is_lost) {
  const bool is_silent = Clock::now() - last_move_ >= kOnTheWay;
  for (const std::uint32_t member : layout_.members(node)) {
    const bool has_ended = is_lost ? watch_.is_gone(member) : is_silent && watch_.has_ended(member, kOnTheWay);
    if (has_ended) (void)watch_.fail(watch_.end_of(member));
  }
  if (!is_lost || Clock::now() - last_move_ < kForAReason) return;
  (void)watch_.fail(
      {.kind = FailureKind::service_died, .about = layout_.members(node).front(), .noticed = layout_.rank()});
}

void GroupService::fail_late(std::uint32_t member, Clock::duration waited) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited);
  (void)watch_.fail({.kind = FailureKind::late,
                     .about = member,
                     .noticed = layout_.rank(),
                     .seconds = static_cast<std::uint32_t>(seconds.count())});
}

void GroupService::end_hung_process() {
  const std::scoped_lock held(lock_);
  look_at_beats();
}

void GroupService::look_at_beats() {
  const Clock::time_point now = Clock::now();
  if (now - std::exchange(last_look_, now) >= kOwnPause) last_beat_ = now;
  const std::uint64_t beats = head().beats.load(std::memory_order_relaxed);
  if (std::exchange(beats_, beats) != beats) {
    last_beat_ = now;
  } else if (now - last_beat_ >= kHung) {
    kill_process();
  }
}

void GroupService::stop() {
  const Clock::time_point began = Clock::now();
  head().stopped.store(1, std::memory_order_seq_cst);
  while (head().touches.load(std::memory_order_seq_cst) != 0 && !has_ended()) {
    if (Clock::now() - began >= kMostForAPiece) kill_process();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void GroupService::kill_process() const {
  if (!has_ended()) (void)::kill(process_.pid(0), SIGKILL);
}

}  // namespace outrigger::group
