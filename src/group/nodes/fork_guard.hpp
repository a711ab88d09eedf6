// Keeps children that a process forks from holding its connections: else these would not break when the process ends.
//
// Thread rule: any.
#pragma once

#include <utility>

#include "base/unique_fd.hpp"

namespace outrigger::group {

// A socket that closes itself. In a child, the descriptor becomes one of /dev/null.
class GuardedFd {
 public:
  GuardedFd() = default;
  // Throws std::exception if /dev/null cannot be had, or memory.
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

}  // namespace outrigger::group
