// How a host's keeper and `outriggerd dpu` prove to each other over TCP that they know the secret that the job's DPUs
// were started with, without sending it. Fixed width, little-endian, every field checked.
//
//   keeper                                                     DPU
//     greeting {version, byte order, nonce a}           ---->
//                                                       <----  greeting {version, byte order, nonce b}
//     HMAC-SHA256 {"host", version, a, b}               ---->
//                                                       <----  HMAC-SHA256 {"dpu", version, a, b}
//
// The host proves first: whoever only connects gets no proof to try secrets on. Then frames
// (protocol/wire/dpu_link.hpp), by the same connection, which is what binds them to the greeting.
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
  // So many bytes are to be heard next; none: the other end has proven it, and knows this one.
  [[nodiscard]] std::size_t awaited() const;
  // So many bytes. What is to be sent for them. Error: it is not the other end of this job, for people.
  [[nodiscard]] Result<std::vector<std::byte>> hear(std::span<const std::byte> bytes);
  // The other end has closed the connection: what that means here.
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

// Of one end that a socket leads to, which does not block.
class DpuVisitor {
 public:
  DpuVisitor(int socket, DpuGreeting::Side side, const Secret& secret);
  // Goes on with what has come. Error: the other end is none of this job, or has gone.
  [[nodiscard]] Status go_on();
  [[nodiscard]] bool greeted() const { return greeting_.awaited() == 0; }

 private:
  [[nodiscard]] Status say(std::span<const std::byte> bytes) const;

  int socket_;
  DpuGreeting greeting_;
  std::vector<std::byte> heard_;  // of what is awaited
  Status begun_;
};

// All of it, for who has the time.
[[nodiscard]] Status greet_dpu(int socket, DpuGreeting::Side side, const Secret& secret,
                               DpuGreeting::Clock::time_point deadline);

}  // namespace outrigger::proof
