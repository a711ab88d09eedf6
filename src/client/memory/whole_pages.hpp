#pragma once

#include <unistd.h>

#include <cstdint>

namespace outrigger::client {

// `bytes` rounded up to whole pages.
[[nodiscard]] inline std::uint64_t whole_pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace outrigger::client
