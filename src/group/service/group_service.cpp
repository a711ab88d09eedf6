#include "group/service/group_service.hpp"

#include <signal.h>

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

}  // namespace

GroupService::GroupService(ServiceArea area, MemberProcesses process, const Layout& layout, MemberWatch& watch)
    : area_(std::move(area)), process_(std::move(process)), layout_(layout), watch_(watch) {}

GroupService::~GroupService() {
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

GroupService::Served GroupService::serve(Post& post, std::chrono::milliseconds timeout) {
  const Clock::time_point began = Clock::now();
  Clock::time_point next_check = began + kBetweenLooks;
  last_beat_ = began;
  last_move_ = began;
  post.number = calls_;
  put(post);
  for (;;) {
    const std::uint32_t seen = head().changes.load(std::memory_order_acquire);
    if (const std::optional<Served> served = look()) return *served;
    if (watch_.failure().is_set()) {
      stop();
      return Served::failed;
    }
    futex_wait(head().changes, seen, kBetweenLooks);
    if (Clock::now() < next_check) continue;
    next_check = Clock::now() + kBetweenLooks;
    check(began, timeout);
  }
}

std::uint64_t GroupService::finish_pieces(std::byte* into, std::uint64_t bytes) const {
  const PieceCount whole = PieceCount::of(head().pieces.load(std::memory_order_acquire));
  if (whole.post != posts_ || whole.pieces == 0) return 0;
  const std::uint64_t begin = (whole.pieces - 1) * piece_bytes(area_.members());
  const std::uint64_t end = std::min(bytes, begin + piece_bytes(area_.members()));
  if (into != nullptr) std::memcpy(into + begin, head().results[(whole.pieces - 1) % 2].data(), end - begin);
  return end;
}

void GroupService::put(const Post& post) {
  PostSeat& seat = area_.seat(layout_.place());
  ++posts_;
  seat.post = post;
  seat.posted.store(posts_, std::memory_order_release);
  area_.ring();
}

// The process may have ended after its last word.
std::optional<GroupService::Served> GroupService::look() {
  const bool ended = has_ended();
  if (head().completed.load(std::memory_order_acquire) >= posts_) return Served::done;
  const bool returned = head().returned.load(std::memory_order_acquire) >= posts_;
  if (returned || (ended && layout_.nodes() == 1)) return Served::by_members;
  if (!ended) return std::nullopt;
  (void)watch_.fail({.kind = FailureKind::service_died, .about = layout_.here().front(), .noticed = layout_.rank()});
  return Served::failed;
}

void GroupService::check(Clock::time_point began, std::chrono::milliseconds timeout) {
  watch_.look();
  std::optional<std::uint32_t> late;
  for (std::uint32_t place = 0; place < area_.members(); ++place) {
    const std::uint32_t member = layout_.here()[place];
    if (has_posted(place)) continue;
    late = place;
    // It may have posted before it ended.
    if (watch_.has_ended(member) && !has_posted(place)) (void)watch_.fail(watch_.end_of(member));
  }
  if (!late) {
    if (layout_.nodes() > 1) check_nodes(began, timeout);
    return end_hung_process();
  }
  last_beat_ = Clock::now();
  last_move_ = last_beat_;
  if (Clock::now() - began >= timeout) fail_late(layout_.here()[*late], Clock::now() - began);
}

bool GroupService::has_posted(std::uint32_t place) const {
  return area_.seat(place).posted.load(std::memory_order_acquire) >= posts_;
}

void GroupService::check_nodes(Clock::time_point began, std::chrono::milliseconds timeout) {
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
    if (const auto waited = Clock::now() - std::max(began, last_move_); waited >= timeout) {
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
