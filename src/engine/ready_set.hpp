// Peers whose block may move, taken in ring order. One bit a peer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/ids.hpp"

namespace outrigger::engine {

class ReadySet {
 public:
  // Ring order starts after `start`.
  ReadySet(std::size_t size, GroupRank start)
      : size_(size), next_((start.value() + std::size_t{1}) % size), words_((size + 63) / 64) {}

  [[nodiscard]] bool any() const { return count_ != 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] bool contains(GroupRank rank) const {
    return (words_[rank.value() / 64] >> (rank.value() % 64) & 1) != 0;
  }

  void insert(GroupRank rank) {
    if (contains(rank)) return;
    words_[rank.value() / 64] |= std::uint64_t{1} << (rank.value() % 64);
    ++count_;
  }

  void erase(GroupRank rank) {
    if (!contains(rank)) return;
    words_[rank.value() / 64] &= ~(std::uint64_t{1} << (rank.value() % 64));
    --count_;
  }

  // Takes the next one in ring order; never on an empty set.
  [[nodiscard]] GroupRank take() {
    std::size_t word = next_ / 64;
    std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (next_ % 64));
    while (bits == 0) {
      word = (word + 1) % words_.size();
      bits = words_[word];
    }
    const GroupRank rank{static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)))};
    erase(rank);
    next_ = (rank.value() + std::size_t{1}) % size_;
    return rank;
  }

 private:
  std::size_t size_;
  std::size_t next_;
  std::size_t count_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace outrigger::engine
