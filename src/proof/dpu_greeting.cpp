#include "proof/dpu_greeting.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "protocol/build_version.hpp"

namespace outrigger::proof {
namespace {

constexpr std::uint32_t kDpuGreetingMagic = 0x4744524F;  // "ORDG"
constexpr std::uint32_t kThisByteOrder = std::endian::native == std::endian::little ? 1 : 0;

struct PlainDpuGreeting {
  std::uint32_t magic = kDpuGreetingMagic;
  std::uint32_t version = build_version();
  std::uint32_t little_endian = kThisByteOrder;
  std::uint32_t side = 0;
  Nonce nonce{};
};

std::uint32_t number_of(DpuGreeting::Side side) {
  return side == DpuGreeting::Side::host ? 1 : 2;
}

DpuGreeting::Side other_than(DpuGreeting::Side side) {
  return side == DpuGreeting::Side::host ? DpuGreeting::Side::dpu : DpuGreeting::Side::host;
}

std::vector<std::byte> as_sent(const Mac& mac) {
  const auto bytes = std::as_bytes(std::span(mac));
  return {bytes.begin(), bytes.end()};
}

int left_until(DpuGreeting::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - DpuGreeting::Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

}  // namespace

std::vector<std::byte> DpuGreeting::begin() const {
  PlainDpuGreeting greeting;
  greeting.side = number_of(side_);
  greeting.nonce = mine_;
  const auto bytes = std::as_bytes(std::span(&greeting, 1));
  return {bytes.begin(), bytes.end()};
}

std::size_t DpuGreeting::awaited() const {
  if (stage_ == Stage::greeting) return sizeof(PlainDpuGreeting);
  return stage_ == Stage::proof ? sizeof(Mac) : 0;
}

std::string DpuGreeting::closed() const {
  return stage_ == Stage::greeting ? "the other end does not answer"
                                   : "the other end closed the connection: does it have another job's secret?";
}

Mac DpuGreeting::proof_of(Side side) const {
  const bool host = side_ == Side::host;
  return hmac(secret_, Statement("outrigger dpu greeting")
                           .number(number_of(side))
                           .number(build_version())
                           .bytes(host ? mine_ : theirs_)
                           .bytes(host ? theirs_ : mine_));
}

Status DpuGreeting::check(std::span<const std::byte> bytes) {
  PlainDpuGreeting theirs;
  std::memcpy(&theirs, bytes.data(), sizeof(theirs));
  if (theirs.magic != kDpuGreetingMagic || theirs.side != number_of(other_than(side_))) {
    return Error{"the other end is not an Outrigger process"};
  }
  if (theirs.version != build_version()) {
    return Error{other_build_text(theirs.version) + ": install one version on hosts and DPUs"};
  }
  if (theirs.little_endian != kThisByteOrder) return Error{"the other end has the other byte order"};
  theirs_ = theirs.nonce;
  return Done{};
}

Result<std::vector<std::byte>> DpuGreeting::hear(std::span<const std::byte> bytes) {
  if (bytes.size() != awaited() || stage_ == Stage::done) return Error{"the other end is not an Outrigger process"};
  if (stage_ == Stage::greeting) {
    if (const Status checked = check(bytes); !checked) return Error{checked.error()};
    stage_ = Stage::proof;
    return side_ == Side::host ? as_sent(proof_of(side_)) : std::vector<std::byte>();
  }
  const Mac right = proof_of(other_than(side_));
  Mac proof{};
  std::memcpy(proof.data(), bytes.data(), proof.size());
  if (!same(proof, right)) return Error{"the other end has another job's secret"};
  stage_ = Stage::done;
  return side_ == Side::dpu ? as_sent(proof_of(side_)) : std::vector<std::byte>();
}

DpuVisitor::DpuVisitor(int socket, DpuGreeting::Side side, const Secret& secret)
    : socket_(socket), greeting_(side, secret), begun_(say(greeting_.begin())) {}

// Short enough to fit into an unused socket's buffer.
Status DpuVisitor::say(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return Done{};
  const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) return Error{"the other end does not answer"};
  return Done{};
}

Status DpuVisitor::go_on() {
  if (!begun_) return begun_;
  while (!greeted()) {
    const std::size_t have = heard_.size();
    heard_.resize(greeting_.awaited());
    const ssize_t got = ::recv(socket_, heard_.data() + have, heard_.size() - have, MSG_DONTWAIT);
    heard_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Done{};
    if (got <= 0) return Error{greeting_.closed()};
    if (heard_.size() < greeting_.awaited()) continue;
    const Result<std::vector<std::byte>> reply = greeting_.hear(heard_);
    if (!reply) return Error{reply.error()};
    heard_.clear();
    if (Status said = say(reply.value()); !said) return said;
  }
  return Done{};
}

Status greet_dpu(int socket, DpuGreeting::Side side, const Secret& secret, DpuGreeting::Clock::time_point deadline) {
  DpuVisitor visitor(socket, side, secret);
  while (true) {
    if (Status went = visitor.go_on(); !went || visitor.greeted()) return went;
    pollfd awaited{socket, POLLIN, 0};
    const int ready = ::poll(&awaited, 1, left_until(deadline));
    if (ready == 0) return Error{"the other end does not answer"};
    if (ready < 0 && errno != EINTR) return Error{std::string("the connection broke: ") + std::strerror(errno)};
  }
}

}  // namespace outrigger::proof
