// Arguments and results of collectives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace outrigger::intranode {

enum class [[nodiscard]] Outcome : std::uint8_t {
  done,
  ended,  // calls differ (Team::difference()), or Waiter::overdue() has ended the wait: buffers are undefined, and the
          // team must not be used again
};

// One block for each member: equally long ones in a row, or anywhere.
struct Blocks {
  std::byte* base = nullptr;
  std::uint64_t each = 0;                  // bytes of every block ...
  const std::uint64_t* bytes = nullptr;    // ... or, if not null, of each
  const std::uint64_t* offsets = nullptr;  // from `base`; with `bytes`

  [[nodiscard]] static Blocks regular(std::byte* base, std::uint64_t each) { return {base, each, nullptr, nullptr}; }
  [[nodiscard]] static Blocks irregular(std::byte* base, const std::uint64_t* bytes, const std::uint64_t* offsets) {
    return {base, 0, bytes, offsets};
  }
  [[nodiscard]] bool is_regular() const { return bytes == nullptr; }
  [[nodiscard]] std::span<std::byte> of(std::uint32_t member) const {
    const std::uint64_t size = is_regular() ? each : bytes[member];
    if (size == 0) return {};  // `base` may be null
    return {base + (is_regular() ? member * each : offsets[member]), size};
  }
  // The longest block of so many members. If blocks are not equally long, `without` is left out.
  [[nodiscard]] std::uint64_t longest(std::uint32_t members, std::uint32_t without = UINT32_MAX) const {
    std::uint64_t found = each;
    for (std::uint32_t member = 0; !is_regular() && member < members; ++member) {
      if (member != without) found = std::max(found, bytes[member]);
    }
    return found;
  }
};

}  // namespace outrigger::intranode
