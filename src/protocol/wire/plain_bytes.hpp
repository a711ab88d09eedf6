// Messages as bytes: a struct of fixed layout, followed by as many bytes or further structs as it says. Decoders check
// the fields of a struct that they take before use.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace outrigger {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

// Without padding, whose bytes would be those of other memory.
template <class T>
concept FixedLayout = std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;

inline void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <FixedLayout T>
void append(std::vector<std::byte>& out, const T& value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof(value));
  std::memcpy(out.data() + at, &value, sizeof(value));
}

// Removes the first bytes from `rest`. False, and nothing is changed, if there are too few.
[[nodiscard]] inline bool take_bytes(std::span<const std::byte>& rest, std::size_t count,
                                     std::span<const std::byte>& taken) {
  if (count > rest.size()) return false;
  taken = rest.first(count);
  rest = rest.subspan(count);
  return true;
}

template <FixedLayout T>
[[nodiscard]] bool take(std::span<const std::byte>& rest, T& value) {
  std::span<const std::byte> bytes;
  if (!take_bytes(rest, sizeof(value), bytes)) return false;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return true;
}

}  // namespace outrigger
