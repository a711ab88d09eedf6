#include "service/keeper/supervise/neighbours.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "base/abstract_name.hpp"

namespace outrigger::service {
namespace {

constexpr int kMostWaiting = 16;                // backlog of the listener
constexpr std::size_t kMostIncomingLinks = 64;  // further ones are not told when this keeper ends
constexpr std::size_t kMostOutgoingLinks = 64;  // further ones are not told that this keeper is here
constexpr std::chrono::milliseconds kSettle{50};

std::string listener_name(const Claimant& claimant, pid_t pid) {
  return fmt::format("outrigger-keeper:{}:{}:{}", claimant.scope, claimant.job, pid);
}

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

void Neighbours::open() {
  if (claimant_.scope.empty()) return;
  UniqueFd socket = make_socket();
  const std::optional<AbstractName> name = AbstractName::of(listener_name(claimant_, ::getpid()));
  if (!socket.valid() || !name || ::bind(socket.get(), name->address(), name->bytes()) != 0) return;
  if (::listen(socket.get(), kMostWaiting) != 0) return;
  listener_ = std::move(socket);
  watch_listener();
}

void Neighbours::watch_listener() {
  if (listener_.valid()) (void)events_.watch(listener_.get(), {Source::neighbour, 0});
}

void Neighbours::meet(const std::vector<CoreClaim>& claims) {
  std::set<std::string> here;
  for (const CoreClaim& claim : claims) here.insert(listener_name({claimant_.scope, claim.job}, claim.pid));
  std::erase_if(outgoing_, [&here](const auto& host) { return !host.second.valid() && !here.contains(host.first); });
  bool all_met = true;
  for (const std::string& text : here) {
    const auto known = outgoing_.find(text);
    if (known != outgoing_.end()) {
      all_met = all_met && known->second.valid();
      continue;
    }
    UniqueFd link = make_socket();
    const std::optional<AbstractName> name = AbstractName::of(text);
    if (!link.valid() || !name || outgoing_.size() >= kMostOutgoingLinks ||
        ::connect(link.get(), name->address(), name->bytes()) != 0) {
      all_met = false;
      continue;
    }
    (void)events_.watch(link.get(), {Source::neighbour, 0});
    outgoing_.emplace(text, std::move(link));
  }
  if (all_met || looks_left_ <= 0) return;
  look_soon(kSettle * (1 << (kLooks - looks_left_--)));
}

// Connections are accepted at the next look; until then the listener is not watched.
void Neighbours::handle_event() {
  events_.unwatch(listener_.get());
  for (auto& [name, link] : outgoing_) (void)drop_gone(link);
  std::erase_if(incoming_, [this](UniqueFd& link) { return drop_gone(link); });
  looks_left_ = kLooks;
  look_soon(kSettle);
}

// True: it is closed now.
bool Neighbours::drop_gone(UniqueFd& link) {
  if (!link.valid()) return true;
  char said = 0;
  if (::recv(link.get(), &said, sizeof(said), MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  events_.unwatch(link.get());
  link = UniqueFd();
  return true;
}

void Neighbours::look_soon(Clock::duration in) {
  const Clock::time_point then = events_.now() + in;
  next_look_ = std::min(next_look_.value_or(then), then);
}

bool Neighbours::time_to_look(Clock::time_point now) {
  if (!next_look_ || now < *next_look_) return false;
  next_look_.reset();
  accept();
  watch_listener();
  return true;
}

void Neighbours::accept() {
  for (int visits = 0; listener_.valid() && visits < kMostWaiting; ++visits) {
    UniqueFd incoming(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!incoming.valid()) return;
    if (incoming_.size() >= kMostIncomingLinks) continue;
    (void)events_.watch(incoming.get(), {Source::neighbour, 0});
    incoming_.push_back(std::move(incoming));
  }
}

void Neighbours::close() {
  events_.unwatch(listener_.get());
  for (const UniqueFd& incoming : incoming_) events_.unwatch(incoming.get());
  for (const auto& [name, link] : outgoing_) {
    if (link.valid()) events_.unwatch(link.get());
  }
  listener_ = UniqueFd();
  incoming_.clear();
  outgoing_.clear();
  next_look_.reset();
}

}  // namespace outrigger::service
