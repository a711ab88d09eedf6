// src/intranode/flag.hpp includes this where OUTRIGGER_EXPLORE names it: every step goes through an Explorer.
// Slots are small, so that short blocks take several steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>

namespace outrigger::intranode {

inline constexpr std::uint32_t kMostMembers = 4;
inline constexpr std::uint32_t kSlots = 2;
inline constexpr std::size_t kSlotBytes = 96;
inline constexpr std::uint32_t kArrivals = 6;
inline constexpr std::size_t kLittleBytes = 16;
inline constexpr std::size_t kShortBytes = 32;
inline constexpr std::uint32_t kSlicingMembers = 3;
inline constexpr std::size_t kSlicingBytes = 100;
inline constexpr std::size_t kDirectBytes = 150;
inline constexpr std::size_t kUntriedDirectBytes = 200;
inline constexpr std::size_t kPieceUnit = 40;
inline constexpr std::size_t kMostPieces = 4;
inline constexpr std::size_t kHotBytes = 160;
inline constexpr std::uint64_t kPlaces = 2;
inline constexpr std::size_t kMostPosted = 96;
inline constexpr std::uint64_t kWindow = 16;
inline constexpr std::uint64_t kMorePlaces = 2 * kWindow;

namespace steps {

using Site = std::source_location;

[[nodiscard]] bool keeps(const Site& site);
[[nodiscard]] std::uint64_t load(const std::atomic<std::uint64_t>& word);
void store(std::atomic<std::uint64_t>& word, std::uint64_t value);
void tell(std::atomic<std::uint64_t>& word, std::uint64_t value);
[[nodiscard]] std::uint64_t told(const std::atomic<std::uint64_t>& word);
[[nodiscard]] std::uint64_t exchange(std::atomic<std::uint64_t>& word, std::uint64_t expected, std::uint64_t desired,
                                     const Site& site);
void reads(const void* memory, std::size_t bytes);
void writes(const void* memory, std::size_t bytes);

}  // namespace steps
}  // namespace outrigger::intranode
