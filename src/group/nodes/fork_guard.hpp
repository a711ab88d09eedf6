// Keeps children that a process forks from holding its connections: else these would not break when the process ends.
// Lets them know that they are children.
//
// Thread rule: any.
#pragma once

#include <cstdint>
#include <utility>

#include "base/unique_fd.hpp"

namespace outrigger::group {

// A socket that closes itself. In a child it is closed, and the object must not be touched.
class GuardedFd {
 public:
  GuardedFd() = default;
  // Throws std::exception without memory.
  explicit GuardedFd(UniqueFd socket);
  GuardedFd(GuardedFd&& other) noexcept = default;
  GuardedFd& operator=(GuardedFd&& other) noexcept {
    if (this != &other) reset();
    socket_ = std::move(other.socket_);
    return *this;
  }
  GuardedFd(const GuardedFd&) = delete;
  GuardedFd& operator=(const GuardedFd&) = delete;
  ~GuardedFd() { reset(); }

  [[nodiscard]] int get() const { return socket_.get(); }
  [[nodiscard]] bool valid() const { return socket_.valid(); }
  void reset();

 private:
  UniqueFd socket_;
};

// The process that makes it.
class OwnProcess {
 public:
  // Throws std::exception like GuardedFd.
  OwnProcess();
  // False in children. Costs no system call.
  [[nodiscard]] bool is_this() const;

 private:
  std::uint32_t generation_;
};

}  // namespace outrigger::group
