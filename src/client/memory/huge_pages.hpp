// Huge pages for private memory that other processes read.
//
// Cross-memory attach looks up every page of the other process, which for 4 KiB pages takes twice as long as the copy
// itself (docs/inside/memory.md). So buffers that operations send often are collapsed into huge pages (MADV_COLLAPSE,
// Linux 6.1). The memory keeps its contents, stays private and is copied on write by fork() as before; only the page
// tables change. Memory that the kernel cannot collapse stays as it is.
//
// The posting thread calls note_source(); the copier does the work, some pages at a time, when it has nothing to copy.
// Each collapse waits for all processors, however few pages it has. A buffer is collapsed after a few uses. Its memory
// may be freed later, and other memory may get the same address. Then the kernel's count of page faults has grown,
// which is checked now and then, and the buffer needs at least as many uses again.
//
// Thread rule: note_source() by one thread at a time, anything() and advance() by the copier, the rest by any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace outrigger::client {

class HugePages {
 public:
  static constexpr std::uint32_t kLeastUses = 8;
  static constexpr std::uint32_t kMostUses = 512;
  static constexpr std::uint32_t kUsesPerLook = 8;          // between checks that its memory is still the same
  static constexpr std::uint64_t kLeastBytes = 256U << 10;  // of a buffer, in a page
  static constexpr std::uint64_t kMostBytes = 16U << 20;    // collapsed at a time

  HugePages() = default;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // Call it first; without it nothing is done. `page_bytes`: size of a huge page (base/huge_page.hpp), or 0. Stops for
  // good when the kernel has worked longer than `at_most` on some pages, because it had to find memory. Sleep does not
  // count, as the kernel waits for busy processors.
  void allow(std::uint64_t page_bytes, std::chrono::milliseconds at_most = std::chrono::milliseconds(100));

  // An operation has been posted for which others read [address, address + bytes). True: the copier has work now. Takes
  // constant time.
  [[nodiscard]] bool note_source(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] bool anything() const { return handed_over_.load(std::memory_order_seq_cst); }
  // Does some of the work. Only if anything().
  void advance();

  // Bytes of buffers in huge pages so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Buffer {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;     // maximum of these uses; once collapsed, the collapsed bytes
    std::uint64_t last_use = 0;  // number of the last use, among all noted uses
    std::uint32_t uses = 0;      // since it was first noted, or collapsed
    std::uint32_t uses_needed = kLeastUses;
    bool collapsed = false;
    std::uint64_t faults = 0;  // of the process, at that time
    std::atomic<std::uint64_t> huge_bytes{0};
  };
  struct Work {
    Buffer* buffer = nullptr;
    std::uint64_t position = 0;  // of the next page
    std::uint64_t end = 0;       // of the buffer
    std::uint64_t huge_bytes = 0;
    std::uint32_t refused_in_a_row = 0;
    std::uint32_t tries = 0;  // failed because a page was in use
  };

  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 64;

  [[nodiscard]] Buffer& buffer_at(std::uint64_t address);
  static void look_again(Buffer& buffer, std::uint64_t bytes);
  // End of the pages to collapse together: one page that is only partly the buffer's, or several that are wholly its
  // own.
  [[nodiscard]] std::uint64_t end_of_pages(std::uint64_t page_bytes) const;
  // 0 or an error number.
  [[nodiscard]] int collapse(std::uint64_t begin, std::uint64_t end);
  void finish();

  std::atomic<std::uint64_t> page_bytes_{0};
  std::chrono::milliseconds at_most_{0};
  std::uint64_t noted_ = 0;
  std::array<std::array<Buffer, kWays>, kSets> buffers_{};  // by address; the least recently used is replaced
  Work work_;                                               // the copier's while handed over
  std::atomic<bool> handed_over_{false};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace outrigger::client
