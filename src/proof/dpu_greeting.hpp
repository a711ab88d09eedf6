// Handshake of a host's keeper and `outriggerd dpu` over TCP: each proves that it knows the secret with which the job's
// DPUs were started, without sending it. Fixed width, little-endian, every field checked.
//
//   keeper                                                     DPU
//   greeting {version, byte order, nonce a}           ---->
//                                                     <----  greeting {version, byte order, nonce b}
//   HMAC-SHA256 {"host", version, a, b}               ---->
//                                                     <----  HMAC-SHA256 {"dpu", version, a, b}
//
// The host proves first, so that a stranger who connects gets no proof for guessing secrets offline. Frames
// (protocol/wire/dpu_link.hpp) follow on the same connection, which binds them to the handshake.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "proof/hmac.hpp"

namespace outrigger::proof {

class DpuGreeting {
 public:
  enum class Side : std::uint8_t { host, dpu };
  using Clock = std::chrono::steady_clock;

  DpuGreeting(Side side, const Secret& secret) : side_(side), secret_(secret), mine_(fresh_nonce()) {}

  // To be sent first.
  [[nodiscard]] std::vector<std::byte> begin() const;
  // Number of bytes to receive next; 0: the handshake is complete.
  [[nodiscard]] std::size_t awaited() const;
  // Takes awaited() bytes and returns the answer to send. Error (for people): the other end does not belong to this
  // job.
  [[nodiscard]] Result<std::vector<std::byte>> hear(std::span<const std::byte> bytes);
  // A message for people: the other end has closed the connection at this point.
  [[nodiscard]] std::string closed() const;

 private:
  enum class Stage : std::uint8_t { greeting, proof, done };
  [[nodiscard]] Status check(std::span<const std::byte> greeting);
  [[nodiscard]] Mac proof_of(Side side) const;

  Side side_;
  Secret secret_;
  Nonce mine_;
  Nonce theirs_{};
  Stage stage_ = Stage::greeting;
};

// The handshake on a nonblocking socket.
class DpuVisitor {
 public:
  DpuVisitor(int socket, DpuGreeting::Side side, const Secret& secret);
  // Continues with the bytes that have arrived. Error: the other end does not belong to this job, or has closed.
  [[nodiscard]] Status go_on();
  [[nodiscard]] bool greeted() const { return greeting_.awaited() == 0; }

 private:
  [[nodiscard]] Status say(std::span<const std::byte> bytes) const;

  int socket_;
  DpuGreeting greeting_;
  std::vector<std::byte> heard_;  // of the awaited bytes
  Status begun_;
};

// The whole handshake, blocking.
[[nodiscard]] Status greet_dpu(int socket, DpuGreeting::Side side, const Secret& secret,
                               DpuGreeting::Clock::time_point deadline);

}  // namespace outrigger::proof
