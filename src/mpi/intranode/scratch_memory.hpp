// Memory for packed blocks and for results that are not sure yet. It is kept for the next call, as new pages take
// longer than the copies: up to kAlwaysKept by each, and kKeptByAll by all that have more.
//
// Thread rule: one thread at a time for each; any for different ones.
#pragma once

#include <cstddef>
#include <memory>

namespace outrigger::mpi {

class ScratchMemory {
 public:
  static constexpr std::size_t kAlwaysKept = std::size_t{1} << 20;
  static constexpr std::size_t kKeptByAll = std::size_t{64} << 20;  // bytes in a process

  ScratchMemory() = default;
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  ~ScratchMemory() { release(); }

  // At least as many bytes. Ends the process if there are none. Invalidates what was taken before.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    if (bytes_ < bytes) grow(bytes);
    return base_.get();
  }
  // After the call.
  void give_back() {
    if (bytes_ > kAlwaysKept && !reserved_) keep_or_release();
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void grow(std::size_t bytes);
  void keep_or_release();
  void release();

  std::unique_ptr<std::byte[]> base_;
  std::size_t bytes_ = 0;
  bool reserved_ = false;  // of kKeptByAll
};

}  // namespace outrigger::mpi
