// Handshake of a host's keeper and `outriggerd dpu` over TCP: each proves that it knows the secret with which the job's
// DPUs were started, without sending it. Fixed width, little-endian, every field checked.
//
//   keeper                                                     DPU
//   hello {version, byte order, nonce a}              ---->
//                                                     <----  hello {version, byte order, nonce b}
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

class DpuHandshake {
 public:
  enum class Side : std::uint8_t { host, dpu };
  using Clock = std::chrono::steady_clock;

  DpuHandshake(Side side, const Secret& secret) : side_(side), secret_(secret), mine_(fresh_nonce()) {}

  // To be sent first.
  [[nodiscard]] std::vector<std::byte> begin() const;
  // Number of bytes to receive next; 0: the handshake is complete.
  [[nodiscard]] std::size_t awaited() const;
  // Takes awaited() bytes and returns the answer to send. Error (for people): the other end does not belong to this
  // job.
  [[nodiscard]] Result<std::vector<std::byte>> receive(std::span<const std::byte> bytes);
  // A message for people: the other end has closed the connection at this point.
  [[nodiscard]] std::string closed() const;

 private:
  enum class Stage : std::uint8_t { handshake, proof, done };
  [[nodiscard]] Status check(std::span<const std::byte> handshake);
  [[nodiscard]] Mac proof_of(Side side) const;

  Side side_;
  Secret secret_;
  Nonce mine_;
  Nonce theirs_{};
  Stage stage_ = Stage::handshake;
};

// The handshake on a nonblocking socket.
class DpuHandshakeSocket {
 public:
  DpuHandshakeSocket(int socket, DpuHandshake::Side side, const Secret& secret);
  // Continues with the bytes that have arrived. Error: the other end does not belong to this job, or has closed.
  [[nodiscard]] Status go_on();
  [[nodiscard]] bool done() const { return handshake_.awaited() == 0; }

 private:
  [[nodiscard]] Status send(std::span<const std::byte> bytes) const;

  int socket_;
  DpuHandshake handshake_;
  std::vector<std::byte> received_;  // of the awaited bytes
  Status begun_;
};

// The whole handshake, blocking.
[[nodiscard]] Status run_dpu_handshake(int socket, DpuHandshake::Side side, const Secret& secret,
                                       DpuHandshake::Clock::time_point deadline);

}  // namespace outrigger::proof
