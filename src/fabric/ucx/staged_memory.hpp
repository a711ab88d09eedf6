// The memory of this node's ranks, and buffers of this process for blocks of other nodes that are reduced, not placed.
// A buffer looks like a range of a rank that does not exist. Peers cannot name it (see ChunkReceiver); requests are
// served from ranks' memory only.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "fabric/node_memory.hpp"

namespace outrigger::fabric::ucx {

class StagedMemory final : public NodeMemory {
 public:
  explicit StagedMemory(NodeMemory& ranks) : ranks_(ranks) {}

  // One batch per reduction of other nodes' blocks in flight; the engine's window limits them.
  [[nodiscard]] MemoryRef take(std::uint64_t bytes) {
    auto buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.get());
    buffers_.emplace(address, Buffer{std::move(buffer), bytes});
    return MemoryRef{kOwnMemory, kPrivateRegion, address};
  }
  // Nothing is written there any more.
  void give_back(const MemoryRef& buffer) { buffers_.erase(buffer.address); }
  [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }

  [[nodiscard]] View view(const MemoryRef& memory, std::uint64_t bytes) override {
    if (memory.owner != kOwnMemory) return ranks_.view(memory, bytes);
    const auto after = buffers_.upper_bound(memory.address);
    if (after == buffers_.begin()) return View{MoveStatus::memory_fault, nullptr, nullptr};
    const auto& [address, buffer] = *std::prev(after);
    const std::uint64_t offset = memory.address - address;
    if (offset > buffer.bytes || bytes > buffer.bytes - offset) return View{MoveStatus::memory_fault, nullptr, nullptr};
    return View{MoveStatus::ok, buffer.memory.get() + offset, nullptr};
  }
  [[nodiscard]] MoveStatus read(const MemoryRef& from, std::span<std::byte> to) override {
    if (from.owner != kOwnMemory) return ranks_.read(from, to);
    const View source = view(from, to.size());
    if (source.status == MoveStatus::ok) std::memcpy(to.data(), source.bytes, to.size());
    return source.status;
  }
  [[nodiscard]] MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) override {
    if (to.owner != kOwnMemory) return ranks_.write(to, from);
    const View destination = view(to, from.size());
    if (destination.status == MoveStatus::ok) std::memcpy(destination.bytes, from.data(), from.size());
    return destination.status;
  }

  [[nodiscard]] bool is_remote() const override { return ranks_.is_remote(); }
  // Own memory is read and written at once, not asynchronously.
  [[nodiscard]] bool is_remote(const MemoryRef& memory) const override {
    return memory.owner != kOwnMemory && ranks_.is_remote();
  }
  void start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) override {
    ranks_.start_read(from, to, std::move(done));
  }
  void start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done) override {
    ranks_.start_write(to, from, std::move(done));
  }
  bool progress_memory() override { return ranks_.progress_memory(); }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t bytes = 0;
  };
  NodeMemory& ranks_;
  std::map<std::uint64_t, Buffer> buffers_;  // by address
};

}  // namespace outrigger::fabric::ucx
