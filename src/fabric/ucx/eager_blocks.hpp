// What one peer sends before it is asked for: the chunks of each block that have come, until a move takes them.
//
// A peer numbers its blocks. What a block is stands in its notice; chunks may come before it. What comes without being
// wanted is counted and thrown away, so that every block ends with its last byte. Where more is kept than the peer may
// send, the oldest are given up: a move asks for such bytes again.
//
// Plain data; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "protocol/ids.hpp"

namespace outrigger::fabric::ucx {

struct EagerBlock {
  std::uint64_t number = 0;
  std::optional<BlockId> id;                               // empty: no notice yet
  std::uint64_t bytes = 0;                                 // that come, from the start of the block
  std::uint64_t came_bytes = 0;                            // of these
  std::map<std::uint64_t, std::uint64_t> came;             // chunks: offset, bytes
  std::map<std::uint64_t, std::vector<std::byte>> chunks;  // that are kept, by offset
  std::uint64_t transfer = 0;                              // the move that takes them; 0: none yet
  bool unwanted = false;
  [[nodiscard]] bool complete() const { return id && came_bytes == bytes; }
};

class EagerBlocks {
 public:
  // `most_bytes`: the peer sends no more than that without being told that its blocks have been taken.
  // `awaited_of_all`: where those of all peers are counted together; must outlive this.
  explicit EagerBlocks(std::uint64_t most_bytes = 0, std::uint64_t* awaited_of_all = nullptr)
      : most_bytes_(most_bytes), awaited_of_all_(awaited_of_all) {}

  // Each null where the peer does what none of ours does.
  [[nodiscard]] EagerBlock* notice(std::uint64_t number, const BlockId& id, std::uint64_t bytes);
  [[nodiscard]] EagerBlock* chunk_came(std::uint64_t number, std::uint64_t offset, std::uint64_t bytes);

  // May give up other blocks.
  void keep(std::uint64_t number, std::uint64_t offset, std::span<const std::byte> chunk);

  // Null: there is none, or it is not wanted.
  [[nodiscard]] EagerBlock* find(const BlockId& id);
  [[nodiscard]] EagerBlock* find(std::uint64_t number);

  // What is kept has been taken.
  void drop_chunks(EagerBlock& block);
  // Nobody wants it (any more).
  void give_up(std::uint64_t number);
  // No more of it comes.
  void erase(std::uint64_t number);
  // Nor of any.
  void clear();

  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  // Of blocks with a notice, that have not come.
  [[nodiscard]] std::uint64_t awaited_bytes() const { return awaited_bytes_; }
  [[nodiscard]] std::uint64_t kept_bytes() const { return kept_bytes_; }

 private:
  [[nodiscard]] EagerBlock& find_or_add(std::uint64_t number);
  void expect(std::uint64_t bytes);
  void expect_no_more(std::uint64_t bytes);

  std::uint64_t most_bytes_;
  std::uint64_t* awaited_of_all_;
  std::map<std::uint64_t, EagerBlock> blocks_;  // by number, so the oldest first
  std::unordered_map<BlockId, std::uint64_t> numbers_;
  std::uint64_t awaited_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace outrigger::fabric::ucx
