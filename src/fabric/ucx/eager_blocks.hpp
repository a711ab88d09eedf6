// Eager blocks of one peer: their received chunks, until a move takes them.
//
// A peer numbers its blocks. A block's notice names it; chunks may come before the notice. Unwanted chunks are counted
// and dropped, so that every block ends with its last byte. If a peer sends more than it may, the oldest blocks are
// dropped, and moves request their bytes again.
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
  std::uint64_t bytes = 0;                                 // bytes that are sent, from the start of the block
  std::uint64_t came_bytes = 0;                            // bytes that have come
  std::map<std::uint64_t, std::uint64_t> came;             // received chunks: offset, bytes
  std::map<std::uint64_t, std::vector<std::byte>> chunks;  // kept chunks, by offset
  std::uint64_t transfer = 0;                              // the move that takes them; 0: none yet
  bool unwanted = false;
  [[nodiscard]] bool complete() const { return id && came_bytes == bytes; }
};

class EagerBlocks {
 public:
  // `most_bytes`: the peer's limit of unconfirmed bytes. `awaited_of_all`: sum over all peers; must outlive this.
  explicit EagerBlocks(std::uint64_t most_bytes = 0, std::uint64_t* awaited_of_all = nullptr)
      : most_bytes_(most_bytes), awaited_of_all_(awaited_of_all) {}

  // nullptr if the peer breaks the protocol.
  [[nodiscard]] EagerBlock* notice(std::uint64_t number, const BlockId& id, std::uint64_t bytes);
  [[nodiscard]] EagerBlock* chunk_came(std::uint64_t number, std::uint64_t offset, std::uint64_t bytes);

  // May drop other blocks.
  void keep(std::uint64_t number, std::uint64_t offset, std::span<const std::byte> chunk);

  // nullptr if there is none, or it is not wanted.
  [[nodiscard]] EagerBlock* find(const BlockId& id);
  [[nodiscard]] EagerBlock* find(std::uint64_t number);

  // The kept chunks have been taken.
  void drop_chunks(EagerBlock& block);
  // No move wants it any more.
  void give_up(std::uint64_t number);
  // The block has ended.
  void erase(std::uint64_t number);
  void clear();

  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  // Bytes of blocks with a notice that have not come.
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
