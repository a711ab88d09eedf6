// Moves between ranks of the host, in a bounded number of concurrent chunks. Each chunk goes one of two ways:
//
//   by alias   read from the source's memory straight into the destination's, if that is imported here
//   staged     read into a buffer here, and written from there
//
// A chunk that fails by alias is staged. Only if that fails too is the memory at fault.
//
// Thread rule: one thread. Completions are delivered from deliver() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "fabric/dpu/alias.hpp"
#include "fabric/dpu/dpu_options.hpp"
#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/ucx/staging.hpp"

namespace outrigger::fabric::dpu {

class RankMoves {
 public:
  RankMoves(const DpuOptions& options, RemoteRanks& ranks)
      : options_(options), ranks_(ranks), staging_(options.buffers, options.chunk_bytes) {}
  // From now on uses imports of memory that ranks export.
  void use_imports(ImportCache& imports) { imports_ = &imports; }

  void begin(const Block& from, const Block& to, MoveCompletion& completion);
  void cancel(MoveCompletion& completion);
  // Releases what the moves hold, before closing.
  void clear() { moves_.clear(); }

  // Each does all that is possible now, and returns true if that was anything.
  [[nodiscard]] bool start_chunks();
  [[nodiscard]] bool deliver() { return finished_.deliver(); }
  [[nodiscard]] std::size_t size() const { return moves_.size() + finished_.size(); }

 private:
  struct Chunk {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  struct Move {
    Block from;
    Block to;
    MoveCompletion* completion = nullptr;  // nullptr if cancelled
    std::uint64_t started_bytes = 0;
    std::uint32_t open_chunks = 0;
    MoveStatus status = MoveStatus::ok;
    ImportedPtr target{};          // of the destination's memory; nullptr: staged
    std::vector<Chunk> refused{};  // by the network: to be staged
    bool queued = false;           // in ready_ or alias_ready_
    bool aliased = false;          // a chunk was moved by alias, so a read must follow
    bool staged = false;           // a chunk was staged

    [[nodiscard]] bool has_more() const { return !refused.empty() || started_bytes < from.bytes; }
  };

  [[nodiscard]] Move* find(std::uint64_t id);
  void queue(std::uint64_t id, Move& move);
  void unqueue(std::uint64_t id, Move& move);
  // The next move of a queue with something to start; nullptr if there is none, or it was cancelled.
  [[nodiscard]] Move* next_of(std::deque<std::uint64_t>& queue, std::uint64_t& id);
  [[nodiscard]] Chunk begin_chunk(std::uint64_t id, Move& move);
  [[nodiscard]] Chunk next_chunk(Move& move) const;
  void chunk_ended(std::uint64_t id, MoveStatus status);
  void finish(std::uint64_t id);

  void start_staged(std::uint64_t id, Move& move, ucx::StagingBuffer staging);

  [[nodiscard]] bool may_alias(const Move& move);
  void choose_way(std::uint64_t id, const RemoteRangePtr& destination);
  void start_alias(std::uint64_t id, Move& move);
  void alias_ended(std::uint64_t id, const Chunk& chunk, MoveStatus status);
  // Reads the destination's last bytes over its own connection. This orders the network's writes there before later
  // puts.
  void read_after(std::uint64_t id, Move& move);

  const DpuOptions& options_;
  RemoteRanks& ranks_;
  ImportCache* imports_ = nullptr;  // nullptr without alias
  ucx::StagingPool staging_;
  std::uint64_t next_move_ = 1;
  std::unordered_map<std::uint64_t, Move> moves_;
  std::deque<std::uint64_t> ready_;        // with chunks to be staged, round-robin
  std::deque<std::uint64_t> alias_ready_;  // the same by alias
  std::size_t alias_reads_ = 0;            // in flight
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric::dpu
