// Native or offloaded, and by which algorithm, where measuring decides: the kinds of a communicator's calls, the
// methods to do them, cached decisions, and trials of two methods in turn. Parts of a dispatch plan
// (dispatch_plan.hpp), so all ranks decide alike.
//
// Plain data.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocol/collective.hpp"

namespace outrigger::steer {

// A collective, blocking or not.
struct CollectiveForm {
  static constexpr std::size_t kCount = kCollectives.size() * 2;

  Collective collective;
  bool blocking;

  [[nodiscard]] constexpr std::size_t index() const { return index_of(collective) * 2 + (blocking ? 1 : 0); }
};

// Collective, form and, where MPI makes blocks alike on all ranks, their size: class c has those of more than 2^(c-1)
// and at most 2^c bytes, the last all larger ones. Without alike blocks everything is in class 0.
struct CallKey {
  static constexpr std::uint16_t kSizeClasses = 24;
  static constexpr std::uint16_t kCount = static_cast<std::uint16_t>(CollectiveForm::kCount) * kSizeClasses;
  static constexpr std::uint16_t kNone = 0xFFFF;

  std::uint16_t value = kNone;

  [[nodiscard]] static constexpr CallKey of(Collective collective, bool blocking,
                                            std::optional<std::uint64_t> block_bytes) {
    const std::uint64_t bytes = block_bytes.value_or(0);
    const auto bits = static_cast<int>(bytes <= 1 ? 0 : std::bit_width(bytes - 1));
    const auto size_class = static_cast<std::uint16_t>(std::min<int>(bits, kSizeClasses - 1));
    const auto form = static_cast<std::uint16_t>(CollectiveForm{collective, blocking}.index());
    return {static_cast<std::uint16_t>(form * kSizeClasses + size_class)};
  }
  [[nodiscard]] constexpr bool known() const { return value < kCount; }
  // The rest: of one that is known.
  [[nodiscard]] constexpr std::size_t form_index() const { return value / kSizeClasses; }
  [[nodiscard]] constexpr Collective collective() const { return kCollectives[form_index() / 2].collective; }
  [[nodiscard]] constexpr bool blocking() const { return form_index() % 2 != 0; }
  [[nodiscard]] constexpr bool without_sizes() const { return !kCollectives[form_index() / 2].one_size; }
  [[nodiscard]] constexpr std::uint16_t size_class() const { return value % kSizeClasses; }
  auto operator<=>(const CallKey&) const = default;
};

// How a call is done: by the program's own MPI, or by service processes and this algorithm.
struct Method {
  std::uint8_t value = 0;  // 0: native; else the Algorithm

  [[nodiscard]] static constexpr Method native() { return {}; }
  [[nodiscard]] static constexpr Method by(Algorithm algorithm) { return {static_cast<std::uint8_t>(algorithm)}; }
  [[nodiscard]] constexpr bool is_native() const { return value == 0; }
  // Nothing: native.
  [[nodiscard]] constexpr std::optional<Algorithm> algorithm() const {
    return is_native() ? std::nullopt : std::optional(static_cast<Algorithm>(value));
  }
  [[nodiscard]] constexpr bool possible_for(CallKey key) const {
    return key.known() && (is_native() || has_algorithm(key.collective(), static_cast<Algorithm>(value)));
  }
  auto operator<=>(const Method&) const = default;
};

// The decision for a kind of call.
struct CachedDecision {
  CallKey key;
  Method method;
  bool for_good = false;  // native, and not tried again
  bool operator==(const CachedDecision&) const = default;
};
// For one communicator; at the limit no further kinds of its calls are tried, and go by the built-in table.
inline constexpr std::size_t kMostDecisions = 12;

// Calls of one kind are done by two methods in turn, in windows of some calls each. Each pair of windows has both, in
// an order given by a hash, so that a pattern of the program does not always meet the same one. The first pair warms
// up.
inline constexpr std::uint32_t kTrialPairs = 7;
inline constexpr std::uint32_t kTrialWindows = 2 * kTrialPairs;
struct Trial {
  std::uint16_t number = 0;  // of the communicator, from 1 and around; 0: none
  CallKey key;
  Method usual;
  Method other;
  std::uint8_t window_log2 = 0;  // calls in a window

  static constexpr std::uint8_t kMostWindowLog2 = 10;

  [[nodiscard]] constexpr bool under_way() const { return number != 0; }
  [[nodiscard]] constexpr std::uint32_t calls() const { return kTrialWindows << window_log2; }
  [[nodiscard]] constexpr bool other_in(std::uint32_t window) const {
    std::uint32_t mixed = (std::uint32_t{number} << 16U | key.value) + window / 2 * 0x9E3779B9U;
    mixed = (mixed ^ mixed >> 16U) * 0x85EBCA6BU;
    const bool other_first = ((mixed ^ mixed >> 13U) & 1U) != 0;
    return other_first == (window % 2 == 0);
  }
  [[nodiscard]] constexpr bool valid() const {
    return number == 0
               ? *this == Trial{}
               : usual.possible_for(key) && other.possible_for(key) && usual != other && window_log2 <= kMostWindowLog2;
  }
  bool operator==(const Trial&) const = default;
};

// A rank asks for a trial of one kind of its calls.
struct TrialRequest {
  CallKey key;
  Method usual;  // where nothing has been decided yet
  Algorithm if_offloaded = Algorithm::ring_pull;
  std::uint8_t window_log2 = 0;

  [[nodiscard]] constexpr bool valid() const {
    return usual.possible_for(key) && Method::by(if_offloaded).possible_for(key) &&
           window_log2 <= Trial::kMostWindowLog2;
  }
  // All but the algorithm, in one word.
  [[nodiscard]] constexpr std::uint32_t encode() const {
    return std::uint32_t{key.value} << 16U | std::uint32_t{usual.value} << 8U | window_log2;
  }
  [[nodiscard]] static constexpr TrialRequest decode(std::uint32_t word, Algorithm if_offloaded) {
    return {{static_cast<std::uint16_t>(word >> 16U)},
            {static_cast<std::uint8_t>(word >> 8U)},
            if_offloaded,
            static_cast<std::uint8_t>(word)};
  }
  bool operator==(const TrialRequest&) const = default;
};

// Measurements of a trial: of each window the time that the program has lost, and of all together the time that has
// passed. Sums over ranks.
struct TrialTimes {
  std::array<std::uint64_t, kTrialWindows> lost_ns{};
  std::uint64_t passed_ns = 0;  // 0: spoiled

  void add(const TrialTimes& more) {
    const bool spoiled = passed_ns == 0 || more.passed_ns == 0;
    for (std::size_t i = 0; i < lost_ns.size(); ++i) lost_ns[i] += more.lost_ns[i];
    passed_ns = spoiled ? 0 : passed_ns + more.passed_ns;
  }
  bool operator==(const TrialTimes&) const = default;
};

inline void add_to(std::optional<TrialTimes>& sum, const TrialTimes& more) {
  if (sum) {
    sum->add(more);
  } else {
    sum = more;
  }
}

// The method that a trial speaks for. Service processes must be worth it: they win against the MPI only where most
// pairs of windows and the median show a gain, and having won lose where there is none. Nothing: the times do not tell.
[[nodiscard]] std::optional<Method> better_method(const Trial& trial, const TrialTimes& times);

}  // namespace outrigger::steer
