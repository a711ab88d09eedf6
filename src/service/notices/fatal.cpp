#include "service/notices/fatal.hpp"

#include <algorithm>
#include <cstring>

#include "base/futex.hpp"

namespace outrigger::service {

namespace {

void write_text(SegmentHeader& header, std::string_view text) {
  const std::size_t bytes = std::min(text.size(), kFatalTextBytes - 1);
  std::memcpy(header.fatal_text.data(), text.data(), bytes);
  header.fatal_text[bytes] = '\0';
}

}  // namespace

void write_warning(SegmentView segment, std::string_view text) {
  SegmentHeader& header = segment.header();
  if (header.fatal.load(std::memory_order_acquire) != 0) return;
  write_text(header, text);
  header.warned.store(1, std::memory_order_release);
}

void write_fatal(SegmentView segment, std::string_view text, FatalState state) {
  SegmentHeader& header = segment.header();
  if (header.fatal.load(std::memory_order_acquire) != 0) return;
  write_text(header, text);
  header.fatal.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
  // The changed count makes a rank that is about to sleep on the old value return at once.
  header.completions.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(header.completions);
}

}  // namespace outrigger::service
