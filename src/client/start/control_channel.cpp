#include "client/start/control_channel.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/no_cancellation.hpp"
#include "base/shared_memory.hpp"
#include "protocol/shared/life_lock.hpp"
#include "protocol/wire/job_map.hpp"

namespace outrigger::client {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookInterval{5};
constexpr std::chrono::milliseconds kWaitSlice{20};
constexpr int kSendTimeoutMs = 2000;

template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& reason) {
  return {reason.data(), ::strnlen(reason.data(), reason.size())};
}

}  // namespace

std::unique_lock<std::mutex> ControlChannel::locked(bool may_wait) {
  return may_wait ? std::unique_lock(mutex_) : std::unique_lock(mutex_, std::try_to_lock);
}

bool ControlChannel::announce(Region& region, bool may_wait) {
  const NoCancellation whole;  // close() is a cancellation point, and callers let no exception pass
  const std::unique_lock lock = locked(may_wait);
  if (!lock.owns_lock()) return false;
  if (!socket_.open() || next_region_ == UINT32_MAX) return false;  // ids are never reused
  region.id = RegionId(next_region_);
  const RegionBody body{rank_.value(), region.id.value(), reinterpret_cast<std::uintptr_t>(region.base), region.bytes};
  const int fd = region.fd.get();
  const auto packet = encode_control(ControlKind::region_add, body);
  const auto place = answers_.emplace(region.id.value(), RegionAnswer::pending).first;
  const bool sent = socket_.send_packet(packet, std::span<const int>(&fd, 1), may_wait ? kSendTimeoutMs : 0);
  if (sent) {
    ++next_region_;
    region.fd.reset();  // descriptors belong to the program
  } else {
    answers_.erase(place);
    while (receive_one(0)) {  // detects a dead keeper
    }
  }
  return sent;
}

RegionAnswer ControlChannel::take_answer(RegionId region) {
  const auto found = answers_.find(region.value());
  if (found == answers_.end()) return RegionAnswer::refused;
  const RegionAnswer answer = found->second;
  if (answer == RegionAnswer::pending && !socket_.open()) {
    answers_.erase(found);
    return RegionAnswer::refused;
  }
  if (answer != RegionAnswer::pending) answers_.erase(found);
  return answer;
}

RegionAnswer ControlChannel::answer(RegionId region) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return RegionAnswer::pending;
  while (receive_one(0)) {
  }
  return take_answer(region);
}

RegionAnswer ControlChannel::wait_for_answer(RegionId region, std::chrono::milliseconds at_most) {
  const Clock::time_point deadline = Clock::now() + at_most;
  while (true) {
    const std::lock_guard lock(mutex_);
    const RegionAnswer answer = take_answer(region);
    if (answer != RegionAnswer::pending) return answer;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      answers_.erase(region.value());
      return RegionAnswer::refused;
    }
    // In slices, so that other threads get their turn.
    receive_one(static_cast<int>(std::min(left, kWaitSlice).count()));
  }
}

void ControlChannel::drop_region(RegionId region, bool may_wait) {
  const std::unique_lock lock = locked(may_wait);
  if (!lock.owns_lock()) return;
  answers_.erase(region.value());
  if (!socket_.open()) return;
  RegionBody body;
  body.world_rank = rank_.value();
  body.region = region.value();
  const bool sent =
      socket_.send_packet(encode_control(ControlKind::region_drop, body), {}, may_wait ? kSendTimeoutMs : 0);
  if (sent || !may_wait) return;
  while (receive_one(0)) {  // it may have sent the reason
  }
  if (socket_.open()) lose("the keeper of this node does not accept messages any more");
}

Result<ControlMessage> ControlChannel::wait_for(ControlKind kind, std::chrono::milliseconds at_most) {
  const Clock::time_point deadline = Clock::now() + at_most;
  while (true) {
    const std::lock_guard lock(mutex_);
    if (const auto found = expected_.find(kind); found != expected_.end()) {
      ControlMessage message = std::move(found->second);
      expected_.erase(found);
      return message;
    }
    if (!socket_.open()) return Error{lost_reason_};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Error{"the keeper of this node does not answer"};
    receive_one(static_cast<int>(std::min(left, kWaitSlice).count()));
  }
}

Result<std::vector<std::byte>> ControlChannel::node_descriptor(std::chrono::milliseconds at_most) {
  Result<ControlMessage> message = wait_for(ControlKind::node_descriptor, at_most);
  if (!message) return Error{message.error()};
  const auto body = message.value().body<SharedBytesBody>();
  return read_shared_bytes(message.value().fds()[0].get(), body.bytes, kMaxJobMapBytes);
}

Status ControlChannel::take_job_map(std::span<const std::byte> descriptors, std::uint32_t node,
                                    std::chrono::milliseconds at_most) {
  Result<UniqueFd> shared = share_bytes("outrigger-job-map", descriptors);
  if (!shared) return Error{shared.error()};
  {
    const int fd = shared.value().get();
    const SharedBytesBody body{descriptors.size(), node, 0};
    const std::lock_guard lock(mutex_);
    if (!socket_.open() || !socket_.send(ControlKind::job_map, body, std::span(&fd, 1))) {
      return Error{"the job map could not be sent to the keeper of this node"};
    }
  }
  Result<ControlMessage> answer = wait_for(ControlKind::job_map_taken, at_most);
  if (!answer) return Error{answer.error()};
  const auto taken = answer.value().body<JobMapTakenBody>();
  if (taken.ok != 0) return Done{};
  return Error{text_of(taken.reason)};
}

// From now on the rank detects a dead service process by its segment, like ranks whose service processes are on their
// node.
Result<UniqueFd> ControlChannel::leave_dpu(std::chrono::milliseconds at_most) {
  Result<ControlMessage> message = wait_for(ControlKind::leave_dpu, at_most);
  if (!message) return Error{message.error()};
  std::vector<UniqueFd>& fds = message.value().fds();
  const std::lock_guard lock(mutex_);
  segment_ = std::move(fds[0]);
  return std::move(fds[1]);
}

void ControlChannel::has_left_dpu(std::span<const Region> mapped) {
  const std::lock_guard lock(mutex_);
  bool heard = socket_.open();
  for (const Region& region : mapped) {
    const RegionBody body{rank_.value(), region.id.value(), region.address(), region.bytes};
    const int fd = region.fd.get();
    heard = heard && socket_.send(ControlKind::region_add, body, std::span(&fd, 1));
  }
  if (!heard || !socket_.send(ControlKind::left_dpu, RankBody{rank_.value(), 0})) {
    while (receive_one(0)) {  // it may have sent the reason
    }
    if (socket_.open()) lose("the keeper of this node does not accept messages any more");
  }
}

void ControlChannel::show(ControlKind what, int fd) {
  const std::lock_guard lock(mutex_);
  if (socket_.open()) (void)socket_.send(what, RankBody{rank_.value(), 0}, std::span(&fd, fd >= 0 ? 1 : 0));
}

// Without a keeper no other process would continue a stopped service process, which ends with the last rank.
void ControlChannel::let_go_on(int segment) {
  if (const pid_t service = life_lock_holder(segment); service != 0) (void)::kill(service, SIGCONT);
}

bool ControlChannel::goodbye() {
  const std::lock_guard lock(mutex_);
  const bool heard = socket_.open() && socket_.send(ControlKind::goodbye, RankBody{rank_.value(), 0});
  if (!heard && segment_.valid()) let_go_on(segment_.get());
  segment_.reset();
  socket_.close();
  return heard;
}

std::optional<std::string> ControlChannel::lost() {
  if (!is_over_.load(std::memory_order_acquire)) {
    const std::int64_t now_ns = Clock::now().time_since_epoch().count();
    std::int64_t next_ns = next_look_ns_.load(std::memory_order_relaxed);
    const std::int64_t later_ns = now_ns + std::chrono::nanoseconds(kLookInterval).count();
    if (now_ns < next_ns || !next_look_ns_.compare_exchange_strong(next_ns, later_ns)) return std::nullopt;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return std::nullopt;
    while (receive_one(0)) {
    }
    note_what_is_lost();
    if (!is_over_.load(std::memory_order_relaxed)) return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  return lost_reason_;
}

// Under the lock.
void ControlChannel::note_what_is_lost() {
  if (!is_lost_.load(std::memory_order_relaxed)) return;
  if (keeper_died_ && segment_.valid()) {
    if (has_life_lock(segment_.get())) return;
    lost_reason_ += " (killed?), and so is the service process of this rank";
  }
  is_over_.store(true, std::memory_order_release);
}

bool ControlChannel::receive_one(int timeout_ms) {
  if (!socket_.open()) return false;
  ControlSocket::Received received = socket_.receive(timeout_ms);
  switch (received.event) {
    case ControlSocket::Event::nothing: return false;
    case ControlSocket::Event::closed:
      keeper_died_ = true;
      lose("the keeper of this node is gone");
      return false;
    case ControlSocket::Event::malformed:
      lose("the keeper of this node sent a malformed message: " + received.problem);
      return false;
    case ControlSocket::Event::no_descriptors: lose(received.problem); return false;
    case ControlSocket::Event::message: break;
  }
  switch (received.message->kind()) {
    case ControlKind::region_added: {
      const auto body = received.message->body<RegionAddedBody>();
      // A late answer finds no entry; the region has been dropped meanwhile.
      const auto found = answers_.find(body.region);
      if (found != answers_.end()) found->second = body.ok != 0 ? RegionAnswer::accepted : RegionAnswer::refused;
      return true;
    }
    case ControlKind::node_descriptor:
    case ControlKind::job_map_taken:
    case ControlKind::leave_dpu:
      expected_.insert_or_assign(received.message->kind(), std::move(*received.message));
      return true;
    case ControlKind::refused:
      lose("the keeper of this node ended the connection: " + text_of(received.message->body<RefusedBody>().reason));
      return false;
    default: lose("the keeper of this node sent a message that is not for ranks"); return false;
  }
}

void ControlChannel::lose(std::string reason) {
  lost_reason_ = std::move(reason);
  is_lost_.store(true, std::memory_order_release);
  socket_.close();
}

}  // namespace outrigger::client
