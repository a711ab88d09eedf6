// Huge pages for the private memory that other processes copy from.
//
// Cross-memory attach looks up every page of the process that it reads, and in pages of 4 KiB that takes twice as long
// as the copy itself (docs/inside/memory.md). So buffers that operations send from again and again are collapsed into
// huge pages (MADV_COLLAPSE, Linux 6.1): the same memory, with the same contents, private to the process and copied on
// write by fork() as before; only the page tables know. What the kernel cannot collapse stays as it is.
//
// note_source() is for the thread that posts; the work is the copier's, some pages at a time, when it has nothing to
// copy. The kernel waits for all processors then, whatever the number of pages, and some of them are busy.
// A buffer is worth it when it has been used a few times. Its memory may be given back afterwards and be another one at
// the same address; then the process has got many pages since, by the kernel's count of its page faults, which is
// looked at now and then, and the buffer has to be used again as often and more.
//
// Thread rule: note_source() by one thread at a time, anything() and advance() by the copier, the rest by anybody.
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
  static constexpr std::uint32_t kUsesPerLook = 8;          // at whether its memory is still the same
  static constexpr std::uint64_t kLeastBytes = 256U << 10;  // of a buffer, in a page
  static constexpr std::uint64_t kMostBytes = 16U << 20;    // collapsed at a time

  HugePages() = default;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // Before anything else; without it nothing is done. `page_bytes`: of a huge page (base/huge_page.hpp), or 0.
  // Once the kernel has worked for longer than `at_most` on some pages, because it had to look for memory: no more of
  // this. What it sleeps does not count; it waits for every processor, and some may be busy.
  void allow(std::uint64_t page_bytes, std::chrono::milliseconds at_most = std::chrono::milliseconds(100));

  // An operation has been posted that others read [address, address + bytes) for. True: there is work for the copier
  // now. Takes as long for many bytes as for few.
  [[nodiscard]] bool note_source(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] bool anything() const { return handed_over_.load(std::memory_order_seq_cst); }
  // Does some of the work. With anything() only.
  void advance();

  // Of buffers, in huge pages after all that has been done so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Buffer {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;     // the most of these uses; what was collapsed
    std::uint64_t last_use = 0;  // of all that were noted
    std::uint32_t uses = 0;      // since it was noted first, or collapsed
    std::uint32_t uses_needed = kLeastUses;
    bool collapsed = false;
    std::uint64_t faults = 0;  // of the process, then
    std::atomic<std::uint64_t> huge_bytes{0};
  };
  struct Work {
    Buffer* buffer = nullptr;
    std::uint64_t position = 0;  // of the next page
    std::uint64_t end = 0;       // of the buffer
    std::uint64_t huge_bytes = 0;
    std::uint32_t refused_in_a_row = 0;
    std::uint32_t tries = 0;  // that came to nothing because of a page in use
  };

  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 64;

  [[nodiscard]] Buffer& buffer_at(std::uint64_t address);
  static void look_again(Buffer& buffer, std::uint64_t bytes);
  // Pages that are the buffer's in part, one at a time, or such as are wholly its own: what ends here is begun
  // together.
  [[nodiscard]] std::uint64_t end_of_pages(std::uint64_t page_bytes) const;
  // The error's number, or 0.
  [[nodiscard]] int collapse(std::uint64_t begin, std::uint64_t end);
  void finish();

  std::atomic<std::uint64_t> page_bytes_{0};
  std::chrono::milliseconds at_most_{0};
  std::uint64_t noted_ = 0;
  std::array<std::array<Buffer, kWays>, kSets> buffers_{};  // by address; the one not used for longest goes
  Work work_;                                               // the copier's while handed over
  std::atomic<bool> handed_over_{false};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace outrigger::client
