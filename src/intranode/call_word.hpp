// A member's call in one word, which members compare to notice calls that wrongly differ.
//
//     tag                32 bits  the call's number: its first step, or its place in the communicator's calls
//     by ranks            1 bit
//     collective          5 bits  kNotCompared: none
//     root                6 bits
//     bytes              20 bits  exact below kMostExactBytes, else folded with the highest bit set
#pragma once

#include <cstdint>
#include <string>

#include "protocol/collective_calls.hpp"

namespace outrigger::intranode {

class CallWord {
 public:
  static constexpr std::uint64_t kMostExactBytes = std::uint64_t{1} << 19;

  constexpr CallWord() : word_(std::uint64_t{kNotCompared} << kCallShift) {}
  constexpr explicit CallWord(std::uint64_t word) : word_(word) {}
  constexpr CallWord(CollectiveCall call, std::uint32_t root, std::uint64_t bytes)
      : word_(static_cast<std::uint64_t>(call) << kCallShift | ((std::uint64_t{root} & kRootMask) << kBytesBits) |
              folded(bytes)) {}

  // The same call with a number, and a way.
  [[nodiscard]] constexpr CallWord tagged(std::uint64_t number) const {
    return CallWord((word_ & kCallMask) | number << kTagShift);
  }
  [[nodiscard]] constexpr CallWord by_ranks(bool does) const {
    return CallWord((word_ & ~kByRanks) | (does ? kByRanks : 0));
  }

  [[nodiscard]] constexpr std::uint64_t word() const { return word_; }
  // Above 0: this one's number is higher.
  [[nodiscard]] constexpr std::int32_t ahead_of(CallWord other) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word_ >> kTagShift) -
                                     static_cast<std::uint32_t>(other.word_ >> kTagShift));
  }
  [[nodiscard]] constexpr bool is_compared() const { return number_of_call() != kNotCompared; }
  [[nodiscard]] constexpr bool is_by_ranks() const { return (word_ & kByRanks) != 0; }
  // Each member of a gatherv says its own length.
  [[nodiscard]] constexpr bool is_same_call(CallWord other) const {
    const bool has_own_bytes = number_of_call() == static_cast<std::uint32_t>(CollectiveCall::gatherv);
    return ((word_ ^ other.word_) & kCallMask & (has_own_bytes ? ~kBytesMask : ~std::uint64_t{0})) == 0;
  }
  // And maybe therefore in the way.
  [[nodiscard]] constexpr bool differs_in_bytes_only(CallWord other) const {
    const std::uint64_t changed = (word_ ^ other.word_) & kCallMask & ~kByRanks;
    return changed != 0 && (changed & ~kBytesMask) == 0;
  }
  [[nodiscard]] constexpr bool has_bytes(std::uint64_t bytes) const { return (word_ & kBytesMask) == folded(bytes); }

  // "MPI_Bcast of 8 bytes with root 0".
  [[nodiscard]] std::string description() const;

 private:
  static constexpr std::uint32_t kNotCompared = 31;
  static constexpr unsigned kBytesBits = 20;
  static constexpr unsigned kCallShift = 26;
  static constexpr unsigned kTagShift = 32;
  static constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << kBytesBits) - 1;
  static constexpr std::uint64_t kRootMask = 63;
  static constexpr std::uint64_t kByRanks = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kCallMask = (std::uint64_t{1} << kTagShift) - 1;
  static_assert(kCollectiveCalls <= kNotCompared);

  [[nodiscard]] static constexpr std::uint64_t folded(std::uint64_t bytes) {
    if (bytes < kMostExactBytes) return bytes;
    return kMostExactBytes | ((bytes ^ bytes >> 19 ^ bytes >> 38) & (kMostExactBytes - 1));
  }
  [[nodiscard]] constexpr std::uint32_t number_of_call() const {
    return static_cast<std::uint32_t>(word_ >> kCallShift) & 31;
  }

  std::uint64_t word_;
};

// Two members' calls of one number, or blocks of one pair, that do not fit together.
struct Difference {
  std::uint32_t other = 0;  // the member whose call differs from this one's; itself: within its own arguments
  CallWord mine;
  CallWord theirs;
  bool lengths = false;     // of a pair's block, as follows
  std::uint64_t given = 0;  // bytes
  std::uint64_t room = 0;

  // For a message: names both members and says what each does.
  [[nodiscard]] std::string description(std::uint32_t me) const;
  [[nodiscard]] bool is_of_sizes() const { return lengths || mine.differs_in_bytes_only(theirs); }
};

}  // namespace outrigger::intranode
