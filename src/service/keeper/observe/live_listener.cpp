#include "service/keeper/observe/live_listener.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/abstract_name.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

constexpr int kMostVisits = 16;  // backlog of the listener

bool may_read(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

// Readers send nothing: one that sends or has closed is dropped.
bool has_gone(int socket) {
  char said = 0;
  return ::recv(socket, &said, sizeof(said), MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

void LiveListener::open(const std::string& job) {
  if (listener_.valid()) return;
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto name = AbstractName::of(fmt::format("outrigger-live:{}:{}", job.empty() ? "job" : job, ::getpid()));
  if (!socket.valid() || !name || ::bind(socket.get(), name->address(), name->bytes()) != 0 ||
      ::listen(socket.get(), kMostVisits) != 0) {
    return spdlog::warn("no live figures: the system gives no socket");
  }
  listener_ = std::move(socket);
  (void)events_.watch(listener_.get(), {Source::reader, 0});
}

void LiveListener::handle_event() {
  send_all();
  if (admits_from_ || !listener_.valid()) return;
  events_.unwatch(listener_.get());
  admits_from_ = std::max(events_.now(), admitted_ + kBetweenLooks);
  preparation_.begin();
}

LiveListener::Clock::time_point LiveListener::admits_at() const {
  return preparation_.is_over() ? *admits_from_ : *admits_from_ + kForPreparation;
}

void LiveListener::look(Clock::time_point now) {
  std::erase_if(readers_, [&](const Reader& reader) {
    if (now < reader.deadline) return false;
    events_.unwatch(reader.socket.get());
    return true;
  });
  if (admits_from_ && now >= admits_at()) admit(now);
}

void LiveListener::admit(Clock::time_point now) {
  admits_from_.reset();
  admitted_ = now;
  std::shared_ptr<const std::vector<std::byte>> frame;
  for (int visits = 0; visits < kMostVisits; ++visits) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) break;
    if (!may_read(socket.get()) || readers_.size() >= kMostReaders) continue;
    if (frame == nullptr) frame = std::make_shared<const std::vector<std::byte>>(make_frame_());
    readers_.push_back({std::move(socket), frame, 0, now + kForOneReader});
    (void)events_.watch(readers_.back().socket.get(), {Source::reader, 1}, true);
  }
  send_all();
  (void)events_.watch(listener_.get(), {Source::reader, 0});
}

bool LiveListener::send(Reader& reader) {
  if (has_gone(reader.socket.get())) return true;
  while (reader.sent < reader.frame->size()) {
    const ssize_t bytes = ::send(reader.socket.get(), reader.frame->data() + reader.sent,
                                 reader.frame->size() - reader.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (bytes < 0) return errno != EAGAIN && errno != EINTR;
    reader.sent += static_cast<std::size_t>(bytes);
  }
  return true;
}

void LiveListener::send_all() {
  std::erase_if(readers_, [this](Reader& reader) {
    if (!send(reader)) return false;
    events_.unwatch(reader.socket.get());
    return true;
  });
}

std::optional<LiveListener::Clock::time_point> LiveListener::next_look() const {
  std::optional<Clock::time_point> next;
  if (admits_from_) next = admits_at();
  for (const Reader& reader : readers_) next = std::min(next.value_or(reader.deadline), reader.deadline);
  return next;
}

void LiveListener::close() {
  events_.unwatch(listener_.get());
  for (const Reader& reader : readers_) events_.unwatch(reader.socket.get());
  listener_ = UniqueFd();
  readers_.clear();
  admits_from_.reset();
}

}  // namespace outrigger::service
