#include "client/memory/huge_pages.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/huge_page.hpp"
#include "client/memory/mappings.hpp"

namespace outrigger::client {
namespace {

// Refusals until the rest of the buffer is skipped: its memory cannot be collapsed, or there are no huge pages.
constexpr std::uint32_t kRefusals = 4;
// Tries per buffer whose pages are in use by copies. Memory that is registered with a network is always in use.
constexpr std::uint32_t kMostTries = 4;

constexpr std::uint64_t kSmallPageBytes = 4096;

// Page faults of all threads. getrusage() also sums CPU times: half a microsecond, more with many threads.
std::uint64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
}

void* as_pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

void HugePages::allow(std::uint64_t page_bytes, std::chrono::milliseconds at_most) {
  if (page_bytes > kMostBytes) return;  // they take too long to make
  at_most_ = at_most;
  page_bytes_.store(page_bytes, std::memory_order_relaxed);
}

HugePages::Buffer& HugePages::buffer_at(std::uint64_t address) {
  const std::uint64_t hash = (address >> 6U) * 0x9E3779B97F4A7C15ULL;
  std::array<Buffer, kWays>& set = buffers_[(hash >> 32U) % kSets];
  const auto found = std::ranges::find(set, address, &Buffer::address);
  return found != set.end() ? *found : *std::ranges::min_element(set, {}, &Buffer::last_use);
}

bool HugePages::note_source(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t page_bytes = page_bytes_.load(std::memory_order_relaxed);
  if (page_bytes == 0 || bytes < kLeastBytes || bytes > ~address) return false;
  Buffer& buffer = buffer_at(address);
  const bool busy = handed_over_.load(std::memory_order_acquire);
  if (buffer.address != address) {
    if (busy && work_.buffer == &buffer) return false;  // the copier may be writing it
    buffer.address = address;
    buffer.uses = 0;
    buffer.uses_needed = kLeastUses;
    buffer.collapsed = false;
    buffer.bytes = 0;
    buffer.huge_bytes.store(0, std::memory_order_relaxed);
  }
  buffer.last_use = ++noted_;
  ++buffer.uses;
  if (buffer.collapsed) look_again(buffer, bytes);
  if (!buffer.collapsed) buffer.bytes = std::max(buffer.bytes, bytes);
  if (buffer.collapsed || buffer.uses < buffer.uses_needed || busy) return false;
  buffer.collapsed = true;
  buffer.uses = 0;
  buffer.faults = page_faults();
  work_ = Work{&buffer, address & ~(page_bytes - 1), address + buffer.bytes, 0, 0, 0};
  handed_over_.store(true, std::memory_order_seq_cst);
  return true;
}

// Programs rarely touch half as many other pages between two checks. If a program frees its memory after a few uses,
// collapsing costs more than it gains. A buffer may have small blocks first and large ones later, or alternate.
void HugePages::look_again(Buffer& buffer, std::uint64_t bytes) {
  bool is_new = false;
  if (buffer.uses % kUsesPerLook == 0) {
    const std::uint64_t before = std::exchange(buffer.faults, page_faults());
    is_new = buffer.faults - before >= bytes / kSmallPageBytes / 2;
  }
  const bool has_grown = bytes > buffer.bytes && bytes - buffer.bytes >= std::max(kLeastBytes, buffer.bytes / 4);
  if (!is_new && !has_grown) return;
  if (!has_grown) {
    buffer.uses_needed = buffer.uses > kMostUses ? kLeastUses : std::min(kMostUses, buffer.uses_needed * 2);
    buffer.bytes = 0;
  }
  buffer.collapsed = false;
  buffer.uses = 0;
}

std::uint64_t HugePages::end_of_pages(std::uint64_t page_bytes) const {
  const std::uint64_t position = work_.position;
  const std::uint64_t whole_end = work_.end & ~(page_bytes - 1);
  const bool in_part = position < work_.buffer->address || position >= whole_end;
  return in_part ? position + page_bytes : std::min(position + kMostBytes, whole_end);
}

void HugePages::advance() {
  const std::uint64_t page_bytes = page_bytes_.load(std::memory_order_relaxed);
  if (page_bytes == 0) return finish();  // handed over when the last pages took too long
  const std::uint64_t begin = work_.position;
  const std::uint64_t end = end_of_pages(page_bytes);
  const std::uint64_t bytes = std::min(end, work_.end) - std::max(begin, work_.buffer->address);
  const int error = bytes >= kLeastBytes ? collapse(begin, end) : 0;
  const bool off = page_bytes_.load(std::memory_order_relaxed) == 0;
  if (error == EAGAIN && !off && ++work_.tries < kMostTries) return;
  if (bytes >= kLeastBytes) {
    work_.huge_bytes += error == 0 ? bytes : 0;
    work_.refused_in_a_row = error == 0 ? 0 : work_.refused_in_a_row + 1;
  }
  work_.position = end;
  if (end >= work_.end || work_.refused_in_a_row == kRefusals || off) finish();
}

// A huge page may also contain other memory of the program. A page that two mappings share is not collapsed, although
// the kernel reports success.
int HugePages::collapse(std::uint64_t begin, std::uint64_t end) {
  const bool in_part = begin < work_.buffer->address || end > work_.end;
  if (in_part && !in_one_mapping(begin, end)) return EINVAL;
  const auto before = time_on(CLOCK_THREAD_CPUTIME_ID);
  const int error = ::madvise(as_pointer(begin), end - begin, kCollapse) == 0 ? 0 : errno;
  if (time_on(CLOCK_THREAD_CPUTIME_ID) - before > at_most_) page_bytes_.store(0, std::memory_order_relaxed);
  return error;
}

void HugePages::finish() {
  const std::uint64_t before = work_.buffer->huge_bytes.exchange(work_.huge_bytes, std::memory_order_relaxed);
  bytes_.fetch_add(work_.huge_bytes - before, std::memory_order_relaxed);
  handed_over_.store(false, std::memory_order_release);
}

}  // namespace outrigger::client
