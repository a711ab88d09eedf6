#include "group/nodes/connections.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/any_port.hpp"
#include "base/random_bytes.hpp"
#include "group/nodes/own_address.hpp"

namespace outrigger::group {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 1024;
// Connections whose first words have not come. A group has fewer than this.
constexpr std::size_t kMostStrangers = 256;
// A machine that is gone breaks its connections after 30 seconds: 10, and then four probes. Networks that fail for
// less, as while a switch restarts a port, end no group.
constexpr int kSilenceS = 10;
constexpr int kBetweenProbesS = 5;
constexpr int kProbes = 4;
constexpr unsigned kUnacknowledgedMs = 30'000;
// Bytes that wait in a connection's sender. More would fill in long bursts, for which others wait.
constexpr int kUnsentBytes = 512 << 10;

// The first words of who connects; the answer is its token.
struct Hello {
  Token token{};  // of who is connected to
  std::uint32_t rank = 0;
  std::uint32_t channel = 0;
};

template <class Value>
void set_option(int socket, int level, int option, Value value) {
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

void set_options(int socket, bool is_watch) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSilenceS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kBetweenProbesS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  if (is_watch) set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
}

std::string text_of_error(int error) {
  if (error != EMFILE) return std::strerror(error);
  return std::string(std::strerror(error)) +
         " (RLIMIT_NOFILE, ulimit -n): each rank of another node needs three descriptors";
}

std::string text_of(const Address& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address.get(), address.bytes, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return std::string(host.data()) + " port " + port.data();
}

bool wait_for(int socket, short events, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{.fd = socket, .events = events, .revents = 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

// The few bytes fit into any connection.
template <class Record>
bool send_record(int socket, const Record& record) {
  return ::send(socket, &record, sizeof record, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof record);
}
template <class Record>
bool receive_record(int socket, Record& record, Clock::time_point end) {
  std::size_t done = 0;
  while (done < sizeof record) {
    const ssize_t got = ::recv(socket, reinterpret_cast<std::byte*>(&record) + done, sizeof record - done, 0);
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got < 0 && !wait_for(socket, POLLIN, end)) return false;
  }
  return true;
}

UniqueFd connected_to(const Address& address, Clock::time_point end) {
  UniqueFd socket(::socket(address.place.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return {};
  if (::connect(socket.get(), address.get(), address.bytes) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  if (!wait_for(socket.get(), POLLOUT, end)) {
    errno = ETIMEDOUT;
    return {};
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  errno = error;
  return error == 0 ? std::move(socket) : UniqueFd();
}

// One member's connecting.
class Connecting {
 public:
  Connecting(const Layout& layout, const std::vector<Contact>& contacts, bool has_services, Clock::time_point end)
      : layout_(layout), contacts_(contacts), has_services_(has_services), end_(end), made_(layout.size()) {}

  // To members of lower rank. The system accepts before they do.
  Status reach_lower() {
    for (std::uint32_t other = 0; other < layout_.rank(); ++other) {
      if (layout_.is_here(other)) continue;
      for (std::uint32_t channel = 0; channel < channels(other); ++channel) {
        UniqueFd socket = connected_to(contacts_[other].address, end_);
        const Hello hello{.token = contacts_[other].token, .rank = layout_.rank(), .channel = channel};
        if (!socket.valid() || !send_record(socket.get(), hello)) return unreachable(other, text_of_error(errno));
        made_[other][channel] = std::move(socket);
      }
    }
    return Done{};
  }

  // From members of higher rank. Anybody else may connect, too.
  Status accept_higher(int listener) {
    std::vector<UniqueFd> strangers;
    while (const std::uint32_t missing = missing_one()) {
      if (Clock::now() >= end_) return unreachable(missing, "it has not connected in time");
      std::vector<pollfd> ready{{.fd = listener, .events = POLLIN, .revents = 0}};
      for (const UniqueFd& one : strangers) ready.push_back({.fd = one.get(), .events = POLLIN, .revents = 0});
      (void)::poll(ready.data(), ready.size(), 100);
      for (std::size_t i = ready.size() - 1; i > 0; --i) {
        if (ready[i].revents == 0) continue;
        welcome(std::move(strangers[i - 1]));
        strangers.erase(strangers.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
      if (const int error = accept_into(strangers, listener); error != 0) {
        return unreachable(missing, text_of_error(error));
      }
    }
    return Done{};
  }

  Status read_answers() {
    for (std::uint32_t other = 0; other < layout_.rank(); ++other) {
      if (layout_.is_here(other)) continue;
      for (std::size_t channel = 0; channel < channels(other); ++channel) {
        const UniqueFd& socket = made_[other][channel];
        Token token;
        if (!receive_record(socket.get(), token, end_) || token != contacts_[layout_.rank()].token) {
          return unreachable(other, "it has not answered as a member");
        }
      }
    }
    return Done{};
  }

  Listener::Connections take() {
    for (auto& channels : made_) {
      for (std::size_t channel = 0; channel < kChannels; ++channel) {
        if (!channels[channel].valid()) continue;
        set_options(channels[channel].get(), channel == static_cast<std::size_t>(Channel::watch));
      }
    }
    return std::move(made_);
  }

 private:
  // With a member of another node.
  [[nodiscard]] std::size_t channels(std::uint32_t other) const {
    const bool are_first = layout_.place() == 0 && layout_.place_of(other) == 0;
    return has_services_ && are_first ? kChannels : static_cast<std::size_t>(Channel::services);
  }

  // All that wait, and at most so many: the oldest stranger goes first. Returns an error of the system, or 0.
  [[nodiscard]] static int accept_into(std::vector<UniqueFd>& strangers, int listener) {
    for (std::size_t i = 0; i < kMostStrangers; ++i) {
      UniqueFd fresh(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fresh.valid()) {
        if (strangers.size() == kMostStrangers) strangers.erase(strangers.begin());
        strangers.push_back(std::move(fresh));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return 0;
      } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
        return errno;
      }
    }
    return 0;
  }

  // A member that has not connected. 0: none, as rank 0 is lower than all.
  [[nodiscard]] std::uint32_t missing_one() const {
    for (std::uint32_t other = layout_.rank() + 1; other < layout_.size(); ++other) {
      const std::span wanted = std::span(made_[other]).first(layout_.is_here(other) ? 0 : channels(other));
      if (!std::ranges::all_of(wanted, &UniqueFd::valid)) return other;
    }
    return 0;
  }

  // Its hello came in one piece, or it is no member.
  void welcome(UniqueFd socket) {
    Hello hello;
    const ssize_t got = ::recv(socket.get(), &hello, sizeof hello, 0);
    const bool is_known = got == static_cast<ssize_t>(sizeof hello) && hello.token == contacts_[layout_.rank()].token &&
                          hello.rank > layout_.rank() && hello.rank < layout_.size() &&
                          hello.channel < channels(hello.rank);
    if (!is_known || !send_record(socket.get(), contacts_[hello.rank].token)) return;
    made_[hello.rank][hello.channel] = std::move(socket);
  }

  [[nodiscard]] Error unreachable(std::uint32_t other, const std::string& why) const {
    return Error{"rank " + std::to_string(layout_.rank()) + " cannot be connected with rank " + std::to_string(other) +
                 " at " + text_of(contacts_[other].address) + ": " + why + "; " + kDeviceVariable +
                 " names the network device"};
  }

  const Layout& layout_;
  const std::vector<Contact>& contacts_;
  bool has_services_;
  Clock::time_point end_;
  Listener::Connections made_;
};

}  // namespace

Result<Listener> Listener::open() {
  Result<ListeningPort> listening = listen_at_any_port(kBacklog);
  if (!listening) return Error{listening.error()};
  const Result<Address> address = own_address(listening.value().port);
  if (!address) return Error{address.error()};
  Contact contact{.address = address.value()};
  if (!fill_random(contact.token)) return Error{"the system has no random bytes"};
  return Listener(std::move(listening.value().socket), contact);
}

Result<Listener::Connections> Listener::connect(const Layout& layout, const std::vector<Contact>& contacts,
                                                bool has_services, std::chrono::milliseconds timeout) const {
  Connecting connecting(layout, contacts, has_services, Clock::now() + timeout);
  if (const Status status = connecting.reach_lower(); !status) return Error{status.error()};
  if (const Status status = connecting.accept_higher(socket_.get()); !status) return Error{status.error()};
  if (const Status status = connecting.read_answers(); !status) return Error{status.error()};
  return connecting.take();
}

}  // namespace outrigger::group
