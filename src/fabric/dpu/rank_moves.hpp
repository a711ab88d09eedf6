// Moves between ranks of the host, in chunks, whose number under way is bounded. Each chunk either way:
//
//   by alias   read from the source's memory straight into the destination's, where that is imported here
//   staged     read into a buffer here, and written from there
//
// Whatever goes wrong with one by alias is staged instead: only when that fails, too, is anything wrong with the
// memory.
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
  // Memory that ranks export is imported from now on.
  void use_imports(ImportCache& imports) { imports_ = &imports; }

  void begin(const Block& from, const Block& to, MoveCompletion& completion);
  void cancel(MoveCompletion& completion);
  // To close: what they hold is let go.
  void clear() { moves_.clear(); }

  // Each does what can be done now; true when anything was.
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
    MoveCompletion* completion = nullptr;  // null: cancelled
    std::uint64_t started_bytes = 0;
    std::uint32_t open_chunks = 0;
    MoveStatus status = MoveStatus::ok;
    ImportedPtr target{};          // of the destination's memory; null: staged
    std::vector<Chunk> refused{};  // by the network: to be staged
    bool queued = false;           // in ready_ or alias_ready_
    bool aliased = false;          // some was moved by alias: it is in place after a read
    bool staged = false;           // some was staged

    [[nodiscard]] bool has_more() const { return !refused.empty() || started_bytes < from.bytes; }
  };

  [[nodiscard]] Move* find(std::uint64_t id);
  void queue(std::uint64_t id, Move& move);
  void unqueue(std::uint64_t id, Move& move);
  // The next move of a queue that has something to begin; null: there is none, or it was cancelled.
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
  // Reads the last bytes of the destination over its own connection: what the network has written there for others is
  // in place then, and what is put there next comes after it.
  void read_after(std::uint64_t id, Move& move);

  const DpuOptions& options_;
  RemoteRanks& ranks_;
  ImportCache* imports_ = nullptr;  // null: there is no alias
  ucx::StagingPool staging_;
  std::uint64_t next_move_ = 1;
  std::unordered_map<std::uint64_t, Move> moves_;
  std::deque<std::uint64_t> ready_;        // with chunks to be staged, by turns
  std::deque<std::uint64_t> alias_ready_;  // the same by alias
  std::size_t alias_reads_ = 0;            // under way
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric::dpu
