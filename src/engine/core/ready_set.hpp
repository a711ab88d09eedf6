// Peers whose block may move. The nearest in the ring is taken first, also if others were ready before it: ranks that
// all go round the ring from their own places seldom meet at one node's link. One bit a peer and one summary bit per 64
// peers make take() fast in large groups.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "engine/core/pool.hpp"
#include "protocol/ids.hpp"

namespace outrigger::engine {

class ReadySet {
 public:
  ReadySet(Pool& pool, std::size_t size, GroupRank start)
      : first_((start.value() + std::size_t{1}) % size),
        words_((size + 63) / 64),
        summary_at_(words_),
        bits_(pool, words_ + (words_ + 63) / 64, 0) {}

  [[nodiscard]] bool any() const { return count_ != 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] bool contains(GroupRank rank) const {
    return (bits_[rank.value() / 64] >> (rank.value() % 64) & 1) != 0;
  }

  void insert(GroupRank rank) {
    if (contains(rank)) return;
    const std::size_t word = rank.value() / 64;
    bits_[word] |= std::uint64_t{1} << (rank.value() % 64);
    bits_[summary_at_ + word / 64] |= std::uint64_t{1} << (word % 64);
    ++count_;
  }

  void erase(GroupRank rank) {
    if (!contains(rank)) return;
    const std::size_t word = rank.value() / 64;
    bits_[word] &= ~(std::uint64_t{1} << (rank.value() % 64));
    if (bits_[word] == 0) bits_[summary_at_ + word / 64] &= ~(std::uint64_t{1} << (word % 64));
    --count_;
  }

  // Takes the nearest peer; the set must not be empty.
  [[nodiscard]] GroupRank take() {
    assert(any());
    std::size_t word = first_ / 64;
    std::uint64_t bits = bits_[word] & (~std::uint64_t{0} << (first_ % 64));
    if (bits == 0) {
      word = word_after(word);
      bits = bits_[word];
    }
    const GroupRank rank{static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)))};
    erase(rank);
    return rank;
  }

 private:
  // The next word with a bit, cyclically; `word` itself comes last.
  [[nodiscard]] std::size_t word_after(std::size_t word) const {
    const std::size_t summaries = bits_.size() - summary_at_;
    const std::size_t from = word + 1 == words_ ? 0 : word + 1;
    std::size_t index = from / 64;
    std::uint64_t bits = bits_[summary_at_ + index] & (~std::uint64_t{0} << (from % 64));
    while (bits == 0) {
      index = index + 1 == summaries ? 0 : index + 1;
      bits = bits_[summary_at_ + index];
    }
    return index * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

  std::size_t first_;  // in the ring
  std::size_t count_ = 0;
  std::size_t words_;
  std::size_t summary_at_;
  PooledArray<std::uint64_t> bits_;  // the words, then their summary
};

}  // namespace outrigger::engine
