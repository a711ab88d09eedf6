#include "service/keeper/ranks/door.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "service/notices/job_protest.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

constexpr std::chrono::seconds kStrangerPatience{5};
constexpr std::size_t kMaxStrangers = std::size_t{2} * kMaxLocalRanks;

// In constant time.
bool same_secret(const Secret& left, const Secret& right) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) difference |= static_cast<unsigned>(left[i] ^ right[i]);
  return difference == 0;
}

}  // namespace

void refuse(Events& events, ControlSocket& socket, const std::string& reason) {
  (void)socket.send_packet(encode_control(ControlKind::refused, make_refusal(reason)), {}, 0);
  events.unwatch(socket.fd());
  socket.close();
}

Door::Door(Events& events, UniqueFd listener, const Secret& secret)
    : events_(events), listener_(std::move(listener)), secret_(secret) {
  events_.watch(listener_.get(), {Source::listener, 0});
}

void Door::accept() {
  while (true) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    ucred peer{};
    socklen_t bytes = sizeof(peer);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != ::geteuid() ||
        strangers_.size() >= kMaxStrangers) {
      spdlog::warn("a connection by user {} was closed", peer.uid);
      continue;
    }
    const std::uint32_t stranger = next_stranger_++;
    events_.watch(fd.get(), {Source::stranger, stranger});
    strangers_.emplace(stranger, Stranger{ControlSocket(std::move(fd)), peer.pid, events_.now() + kStrangerPatience});
  }
}

std::optional<Visitor> Door::hear(std::uint32_t stranger) {
  const auto found = strangers_.find(stranger);
  if (found == strangers_.end()) return std::nullopt;
  ControlSocket::Received received = found->second.socket.receive(0);
  if (received.event == ControlSocket::Event::nothing) return std::nullopt;
  Visitor visitor{std::move(found->second.socket), found->second.pid, {}};
  strangers_.erase(found);
  if (received.event == ControlSocket::Event::closed) return std::nullopt;
  const auto send_away = [&](const std::string& reason) {
    refuse(events_, visitor.socket, reason);
    return std::nullopt;
  };
  if (received.event != ControlSocket::Event::message) return send_away(received.problem);
  if (received.message->kind() != ControlKind::hello) return send_away("the first message is not hello");
  visitor.hello = received.message->body<HelloBody>();
  if (!same_secret(visitor.hello.secret, secret_)) return send_away("wrong secret: this keeper belongs to another job");
  return visitor;
}

void Door::expire(Clock::time_point now) {
  std::erase_if(strangers_, [now](const auto& item) { return item.second.deadline <= now; });
}

std::optional<Door::Clock::time_point> Door::deadline() const {
  std::optional<Clock::time_point> first;
  for (const auto& [number, stranger] : strangers_)
    first = std::min(first.value_or(stranger.deadline), stranger.deadline);
  return first;
}

void Door::refuse_all(const std::string& reason) {
  for (auto& [number, stranger] : strangers_) refuse(events_, stranger.socket, reason);
  strangers_.clear();
}

}  // namespace outrigger::service
