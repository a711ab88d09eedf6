#include "service/keeper/ranks/rank_listener.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "service/notices/fault_report.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::size_t kMostPending = std::size_t{2} * kMaxLocalRanks;

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

RankListener::RankListener(Events& events, UniqueFd listener, const Secret& secret)
    : events_(events), listener_(std::move(listener)), secret_(secret) {
  events_.watch(listener_.get(), {Source::listener, 0});
}

void RankListener::accept() {
  while (true) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    ucred peer{};
    socklen_t bytes = sizeof(peer);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != ::geteuid() ||
        pending_.size() >= kMostPending) {
      spdlog::warn("a connection by user {} was closed", peer.uid);
      continue;
    }
    const std::uint32_t connection = next_number_++;
    events_.watch(fd.get(), {Source::pending_connection, connection});
    pending_.emplace(connection,
                     PendingConnection{ControlSocket(std::move(fd)), peer.pid, events_.now() + kHelloLimit});
  }
}

std::optional<NewRank> RankListener::read(std::uint32_t connection) {
  const auto found = pending_.find(connection);
  if (found == pending_.end()) return std::nullopt;
  ControlSocket::Received received = found->second.socket.receive(0);
  if (received.event == ControlSocket::Event::nothing) return std::nullopt;
  NewRank new_rank{std::move(found->second.socket), found->second.pid, {}};
  pending_.erase(found);
  if (received.event == ControlSocket::Event::closed) return std::nullopt;
  const auto send_away = [&](const std::string& reason) {
    refuse(events_, new_rank.socket, reason);
    return std::nullopt;
  };
  if (received.event != ControlSocket::Event::message) return send_away(received.problem);
  if (received.message->kind() != ControlKind::hello) return send_away("the first message is not hello");
  new_rank.hello = received.message->body<HelloBody>();
  if (!same_secret(new_rank.hello.secret, secret_))
    return send_away("wrong secret: this keeper belongs to another job");
  return new_rank;
}

void RankListener::expire(Clock::time_point now) {
  std::erase_if(pending_, [now](const auto& item) { return item.second.deadline <= now; });
}

std::optional<RankListener::Clock::time_point> RankListener::deadline() const {
  std::optional<Clock::time_point> first;
  for (const auto& [number, connection] : pending_)
    first = std::min(first.value_or(connection.deadline), connection.deadline);
  return first;
}

void RankListener::refuse_all(const std::string& reason) {
  for (auto& [number, connection] : pending_) refuse(events_, connection.socket, reason);
  pending_.clear();
}

}  // namespace outrigger::service
