// This process's memory, offered to the user's other processes by XPMEM (base/xpmem.hpp).
#pragma once

#include <cstdint>
#include <utility>

#include "base/xpmem.hpp"

namespace outrigger::client {

class XpmemSegment {
 public:
  XpmemSegment() = default;
  // All addresses of this process. Empty if XPMEM is not available.
  [[nodiscard]] static XpmemSegment make();
  XpmemSegment(XpmemSegment&& other) noexcept : id_(std::exchange(other.id_, kNoXpmemSegment)) {}
  XpmemSegment& operator=(XpmemSegment&& other) noexcept;
  ~XpmemSegment() { reset(); }

  [[nodiscard]] std::int64_t id() const { return id_; }
  // No process can reach this process's memory by it any more.
  void reset();
  // In a forked child, whose memory it is not.
  void forget() { id_ = kNoXpmemSegment; }

 private:
  explicit XpmemSegment(std::int64_t id) : id_(id) {}
  std::int64_t id_ = kNoXpmemSegment;
};

}  // namespace outrigger::client
