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

// All members have posted, and the process has copied and reduced nothing since.
constexpr std::chrono::seconds kHung{10};
constexpr std::chrono::seconds kOwnPause{1};  // between two looks: the whole job was stopped, the process as well
constexpr std::chrono::seconds kMostForAPiece{5};

}  // namespace

GroupService::GroupService(ServiceArea area, MemberProcesses process, const Layout& layout, MemberWatch& watch)
    : area_(std::move(area)), process_(std::move(process)), layout_(layout), watch_(watch), owner_(::getpid()) {}

GroupService::~GroupService() {
  // A child of this process has no shared memory.
  if (::getpid() != owner_) return;
  area_.seat(layout_.place()).has_left.store(true, std::memory_order_release);
  area_.ring();
}

bool GroupService::begin(bool prefers_service) {
  ++calls_;
  std::atomic<std::uint64_t>& way = head().ways[calls_ % head().ways.size()];
  const std::uint64_t mine = calls_ << 1 | static_cast<std::uint64_t>(prefers_service && !has_ended());
  std::uint64_t found = way.load(std::memory_order_acquire);
  while (found >> 1 < calls_) {
    if (way.compare_exchange_weak(found, mine, std::memory_order_acq_rel)) return (mine & 1) != 0;
  }
  return (found & 1) != 0;
}

GroupService::Served GroupService::serve(const Post& post, std::chrono::milliseconds timeout) {
  const Clock::time_point began = Clock::now();
  Clock::time_point next_check = began + kBetweenLooks;
  last_beat_ = began;
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
std::optional<GroupService::Served> GroupService::look() const {
  const bool ended = has_ended();
  if (head().completed.load(std::memory_order_acquire) >= posts_) return Served::done;
  const bool returned = head().returned.load(std::memory_order_acquire) >= posts_;
  return ended || returned ? std::optional(Served::by_members) : std::nullopt;
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
  if (!late) return end_hung_process();
  last_beat_ = Clock::now();
  if (Clock::now() - began >= timeout) fail_late(*late, Clock::now() - began);
}

bool GroupService::has_posted(std::uint32_t place) const {
  return area_.seat(place).posted.load(std::memory_order_acquire) >= posts_;
}

void GroupService::fail_late(std::uint32_t place, Clock::duration waited) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited);
  (void)watch_.fail({.kind = FailureKind::late,
                     .about = layout_.here()[place],
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
