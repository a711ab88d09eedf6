// For every message: accepted bytes are those that its Writer writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "protocol/wire/message_io.hpp"

namespace outrigger {

template <class M>
std::optional<M> check_round_trip(std::span<const std::byte> bytes) {
  std::optional<M> message = decoded<M>(bytes);
  if (message && !std::ranges::equal(encoded(*message), bytes)) std::abort();
  return message;
}

// A nearly valid message.
inline std::vector<std::byte> spoiled(std::vector<std::byte> good, std::span<const std::byte> by) {
  for (std::size_t i = 0; i < std::min(by.size(), good.size()); ++i) good[i] ^= by[i];
  return good;
}

}  // namespace outrigger
