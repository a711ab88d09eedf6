#include "fabric/ucx/eager_blocks.hpp"

#include <cassert>
#include <iterator>

namespace outrigger::fabric::ucx {
namespace {

// Far more than a peer may have in flight: each block takes some of its quota.
constexpr std::size_t kMostBlocks = 65536;

bool overlaps(const std::map<std::uint64_t, std::uint64_t>& chunks, std::uint64_t offset, std::uint64_t bytes) {
  const auto next = chunks.lower_bound(offset);
  if (next != chunks.end() && next->first < offset + bytes) return true;
  if (next == chunks.begin()) return false;
  const auto before = std::prev(next);
  return before->first + before->second > offset;
}

}  // namespace

EagerBlock& EagerBlocks::find_or_add(std::uint64_t number) {
  EagerBlock& block = blocks_[number];
  block.number = number;
  return block;
}

void EagerBlocks::expect(std::uint64_t bytes) {
  awaited_bytes_ += bytes;
  if (awaited_of_all_ != nullptr) *awaited_of_all_ += bytes;
}

void EagerBlocks::expect_no_more(std::uint64_t bytes) {
  assert(awaited_bytes_ >= bytes && "a block has no more bytes than its notice");
  awaited_bytes_ -= bytes;
  if (awaited_of_all_ != nullptr) *awaited_of_all_ -= bytes;
}

EagerBlock* EagerBlocks::notice(std::uint64_t number, const BlockId& id, std::uint64_t bytes) {
  if (bytes == 0 || bytes > most_bytes_ || blocks_.size() >= kMostBlocks) return nullptr;
  EagerBlock& block = find_or_add(number);
  const bool past_end = !block.came.empty() && block.came.rbegin()->first + block.came.rbegin()->second > bytes;
  if (block.id || past_end) return nullptr;
  block.id = id;
  block.bytes = bytes;
  expect(bytes - block.came_bytes);
  // A restarted peer sends its blocks again: the later one counts.
  if (const auto earlier = numbers_.find(id); earlier != numbers_.end()) {
    const std::uint64_t old = earlier->second;
    if (blocks_.at(old).transfer != 0) {
      block.unwanted = true;
    } else {
      give_up(old);
    }
  }
  if (block.unwanted) {
    drop_chunks(block);
  } else {
    numbers_[id] = number;
  }
  return &block;
}

EagerBlock* EagerBlocks::chunk_came(std::uint64_t number, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0 || bytes > most_bytes_ || offset > most_bytes_ - bytes) return nullptr;
  if (blocks_.size() >= kMostBlocks && !blocks_.contains(number)) return nullptr;
  EagerBlock& block = find_or_add(number);
  if ((block.id && offset + bytes > block.bytes) || overlaps(block.came, offset, bytes)) return nullptr;
  block.came.emplace(offset, bytes);
  block.came_bytes += bytes;
  if (block.id) expect_no_more(bytes);
  return &block;
}

void EagerBlocks::keep(std::uint64_t number, std::uint64_t offset, std::span<const std::byte> chunk) {
  for (auto oldest = blocks_.begin(); oldest != blocks_.end() && kept_bytes_ + chunk.size() > most_bytes_;) {
    const std::uint64_t old = oldest->first;
    ++oldest;
    if (old != number && !blocks_.at(old).chunks.empty()) give_up(old);
  }
  blocks_.at(number).chunks.emplace(offset, std::vector<std::byte>(chunk.begin(), chunk.end()));
  kept_bytes_ += chunk.size();
}

EagerBlock* EagerBlocks::find(const BlockId& id) {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? nullptr : &blocks_.at(found->second);
}

EagerBlock* EagerBlocks::find(std::uint64_t number) {
  const auto found = blocks_.find(number);
  return found == blocks_.end() ? nullptr : &found->second;
}

void EagerBlocks::drop_chunks(EagerBlock& block) {
  for (const auto& [offset, chunk] : block.chunks) kept_bytes_ -= chunk.size();
  assert(kept_bytes_ <= most_bytes_ && "no more bytes are dropped than were kept");
  block.chunks.clear();
}

void EagerBlocks::give_up(std::uint64_t number) {
  const auto found = blocks_.find(number);
  if (found == blocks_.end()) return;
  EagerBlock& block = found->second;
  drop_chunks(block);
  block.unwanted = true;
  block.transfer = 0;
  if (block.id && !numbers_.empty()) {
    if (const auto named = numbers_.find(*block.id); named != numbers_.end() && named->second == number) {
      numbers_.erase(named);
    }
  }
  if (block.complete()) blocks_.erase(found);
}

void EagerBlocks::erase(std::uint64_t number) {
  const auto found = blocks_.find(number);
  if (found == blocks_.end()) return;
  if (found->second.id) expect_no_more(found->second.bytes - found->second.came_bytes);
  // Counts the block as completely received.
  found->second.came_bytes = found->second.bytes;
  const bool named = found->second.id.has_value();
  give_up(number);
  if (!named) blocks_.erase(number);
}

void EagerBlocks::clear() {
  while (!blocks_.empty()) erase(blocks_.begin()->first);
}

}  // namespace outrigger::fabric::ucx
