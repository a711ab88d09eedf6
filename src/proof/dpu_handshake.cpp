#include "proof/dpu_handshake.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "protocol/build_version.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger::proof {
namespace {

constexpr std::uint32_t kDpuHandshakeMagic = 0x4744524F;  // "ORDG"
constexpr std::uint32_t kThisByteOrder = std::endian::native == std::endian::little ? 1 : 0;

struct Hello {
  std::uint32_t magic = kDpuHandshakeMagic;
  std::uint32_t version = build_version();
  std::uint32_t little_endian = kThisByteOrder;
  std::uint32_t side = 0;
  Nonce nonce{};
};

std::uint32_t number_of(DpuHandshake::Side side) {
  return side == DpuHandshake::Side::host ? 1 : 2;
}

DpuHandshake::Side other_than(DpuHandshake::Side side) {
  return side == DpuHandshake::Side::host ? DpuHandshake::Side::dpu : DpuHandshake::Side::host;
}

int left_until(DpuHandshake::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - DpuHandshake::Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

}  // namespace

std::vector<std::byte> DpuHandshake::begin() const {
  return encoded(Hello{.side = number_of(side_), .nonce = mine_});
}

std::size_t DpuHandshake::awaited() const {
  if (stage_ == Stage::handshake) return sizeof(Hello);
  return stage_ == Stage::proof ? sizeof(Mac) : 0;
}

std::string DpuHandshake::closed() const {
  return stage_ == Stage::handshake ? "the other end does not answer"
                                    : "the other end closed the connection: does it have another job's secret?";
}

Mac DpuHandshake::proof_of(Side side) const {
  const bool host = side_ == Side::host;
  return hmac(secret_, Statement("outrigger dpu handshake")
                           .number(number_of(side))
                           .number(build_version())
                           .bytes(host ? mine_ : theirs_)
                           .bytes(host ? theirs_ : mine_));
}

Status DpuHandshake::check(std::span<const std::byte> bytes) {
  const Hello theirs = decoded<Hello>(bytes).value_or(Hello{.magic = 0});
  if (theirs.magic != kDpuHandshakeMagic || theirs.side != number_of(other_than(side_))) {
    return Error{"the other end is not an Outrigger process"};
  }
  if (theirs.version != build_version()) {
    return Error{other_build_text(theirs.version) + ": install one version on hosts and DPUs"};
  }
  if (theirs.little_endian != kThisByteOrder) return Error{"the other end has the other byte order"};
  theirs_ = theirs.nonce;
  return Done{};
}

Result<std::vector<std::byte>> DpuHandshake::receive(std::span<const std::byte> bytes) {
  if (bytes.size() != awaited() || stage_ == Stage::done) return Error{"the other end is not an Outrigger process"};
  if (stage_ == Stage::handshake) {
    if (const Status checked = check(bytes); !checked) return Error{checked.error()};
    stage_ = Stage::proof;
    return side_ == Side::host ? encoded(proof_of(side_)) : std::vector<std::byte>();
  }
  const std::optional<Mac> proof = decoded<Mac>(bytes);
  if (!proof || !same(*proof, proof_of(other_than(side_)))) return Error{"the other end has another job's secret"};
  stage_ = Stage::done;
  return side_ == Side::dpu ? encoded(proof_of(side_)) : std::vector<std::byte>();
}

DpuHandshakeSocket::DpuHandshakeSocket(int socket, DpuHandshake::Side side, const Secret& secret)
    : socket_(socket), handshake_(side, secret), begun_(send(handshake_.begin())) {}

// Short enough to fit into an unused socket's buffer.
Status DpuHandshakeSocket::send(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return Done{};
  const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) return Error{"the other end does not answer"};
  return Done{};
}

Status DpuHandshakeSocket::go_on() {
  if (!begun_) return begun_;
  while (!done()) {
    const std::size_t have = received_.size();
    received_.resize(handshake_.awaited());
    const ssize_t got = ::recv(socket_, received_.data() + have, received_.size() - have, MSG_DONTWAIT);
    received_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Done{};
    if (got <= 0) return Error{handshake_.closed()};
    if (received_.size() < handshake_.awaited()) continue;
    const Result<std::vector<std::byte>> reply = handshake_.receive(received_);
    if (!reply) return Error{reply.error()};
    received_.clear();
    if (Status sent = send(reply.value()); !sent) return sent;
  }
  return Done{};
}

Status run_dpu_handshake(int socket, DpuHandshake::Side side, const Secret& secret,
                         DpuHandshake::Clock::time_point deadline) {
  DpuHandshakeSocket handshake(socket, side, secret);
  while (true) {
    if (Status went = handshake.go_on(); !went || handshake.done()) return went;
    pollfd awaited{socket, POLLIN, 0};
    const int ready = ::poll(&awaited, 1, left_until(deadline));
    if (ready == 0) return Error{"the other end does not answer"};
    if (ready < 0 && errno != EINTR) return Error{std::string("the connection broke: ") + std::strerror(errno)};
  }
}

}  // namespace outrigger::proof
