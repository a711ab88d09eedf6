// Buffers for memory that UCX cannot access itself: a fixed number, made at first use and reused.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace outrigger::fabric::ucx {

class StagingPool;

// A buffer of the pool; its destructor gives it back. Empty: no buffer.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  StagingBuffer(StagingBuffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::move(other.bytes_)) {}
  StagingBuffer& operator=(StagingBuffer&& other) noexcept {
    if (this != &other) {
      give_back();
      pool_ = std::exchange(other.pool_, nullptr);
      bytes_ = std::move(other.bytes_);
    }
    return *this;
  }
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;
  ~StagingBuffer() { give_back(); }

  [[nodiscard]] bool valid() const { return bytes_ != nullptr; }
  [[nodiscard]] std::byte* data() const { return bytes_.get(); }

 private:
  friend class StagingPool;
  StagingBuffer(StagingPool* pool, std::unique_ptr<std::byte[]> bytes) : pool_(pool), bytes_(std::move(bytes)) {}
  inline void give_back();
  StagingPool* pool_ = nullptr;
  std::unique_ptr<std::byte[]> bytes_;
};

// Must outlive its buffers. One thread.
class StagingPool {
 public:
  StagingPool(std::size_t buffers, std::size_t bytes_each) : most_(buffers), bytes_each_(bytes_each) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Empty if all are in use; retry later.
  [[nodiscard]] StagingBuffer take() {
    if (!idle_.empty()) {
      auto bytes = std::move(idle_.back());
      idle_.pop_back();
      return {this, std::move(bytes)};
    }
    if (made_ == most_) return {};
    ++made_;
    return {this, std::make_unique_for_overwrite<std::byte[]>(bytes_each_)};
  }

 private:
  friend class StagingBuffer;
  std::vector<std::unique_ptr<std::byte[]>> idle_;
  std::size_t made_ = 0;
  std::size_t most_;
  std::size_t bytes_each_;
};

void StagingBuffer::give_back() {
  if (pool_ != nullptr && bytes_ != nullptr) {
    assert(pool_->idle_.size() < pool_->made_ && "a buffer goes back once");
    pool_->idle_.push_back(std::move(bytes_));
  }
  pool_ = nullptr;
}

}  // namespace outrigger::fabric::ucx
