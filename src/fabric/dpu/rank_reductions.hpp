// Reductions of ranks' memory on the host: operands are read, reduced here, and the result is written, a few chunks of
// each reduction at a time.
//
// Thread rule: one thread. Completions are delivered from deliver() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/memory_reducer.hpp"
#include "fabric/node_memory.hpp"

namespace outrigger::fabric::dpu {

class RankReductions {
 public:
  // Memory per reduction in flight; the engine's window limits their number.
  static constexpr std::uint64_t kRoomBytes = 256U << 10;  // operands of a chunk, as many as fit
  static constexpr std::uint32_t kChunks = 4;              // in flight

  explicit RankReductions(NodeMemory& ranks) : ranks_(ranks), memory_(ranks) {}

  // Operands of kOwnMemory must stay until the end.
  void begin(ReduceRanges ranges, std::uint64_t bytes, MoveCompletion& completion);
  void cancel(const MoveCompletion& completion);
  // Releases what the reductions hold, before closing.
  void clear() { started_.clear(); }
  [[nodiscard]] bool deliver() { return finished_.deliver(); }
  [[nodiscard]] std::size_t size() const { return started_.size() + finished_.size(); }

 private:
  // The host's memory, and this process's own. No other code may name that.
  class Memory final : public NodeMemory {
   public:
    explicit Memory(NodeMemory& ranks) : ranks_(ranks) {}
    [[nodiscard]] View view(const MemoryRef& memory, std::uint64_t bytes) override;
    [[nodiscard]] MoveStatus read(const MemoryRef& from, std::span<std::byte> to) override {
      return ranks_.read(from, to);
    }
    [[nodiscard]] MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) override {
      return ranks_.write(to, from);
    }
    [[nodiscard]] bool is_remote() const override { return true; }
    void start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) override {
      ranks_.start_read(from, to, std::move(done));
    }

   private:
    NodeMemory& ranks_;
  };
  struct Started {
    ReduceRanges ranges;
    std::uint64_t bytes = 0;
    MoveCompletion* completion = nullptr;  // nullptr if cancelled
    std::uint64_t begun_bytes = 0;
    std::uint32_t open_chunks = 0;
    MoveStatus status = MoveStatus::ok;
  };

  [[nodiscard]] Started* find(std::uint64_t id);
  [[nodiscard]] static std::uint64_t chunk_bytes(const Started& started);
  // Starts as many as may be in flight.
  void begin_chunks(std::uint64_t id);
  void begin_chunk(std::uint64_t id, Started& started);
  void reduced(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes,
               const std::shared_ptr<std::vector<std::byte>>& room);
  void chunk_ended(std::uint64_t id, MoveStatus status);

  NodeMemory& ranks_;
  Memory memory_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, Started> started_;
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric::dpu
