#include "base/accessible_memory.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <type_traits>

#include "base/unique_fd.hpp"
#include "base/unique_file.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace outrigger {
namespace {

std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void* page_of(std::uintptr_t address) {
  return reinterpret_cast<void*>(address / page_bytes() * page_bytes());  // NOLINT(performance-no-int-to-ptr)
}

int filter_of_this_thread() {
  return ::prctl(PR_GET_SECCOMP);
}
const int filter_at_start = filter_of_this_thread();

// The mappings of this process by address: queried one by one (Linux 6.11), else parsed from text.
class Mappings {
 public:
  // The first mapping that ends above `address`; nullopt if there is none, or the mappings cannot be read. Addresses
  // must not decrease.
  [[nodiscard]] std::optional<MappedRange> at_or_above(std::uintptr_t address) {
    if (text_ == nullptr && descriptor_.valid()) {
      if (const std::optional<MappedRange> found = query(address)) return found;
      if (errno == ENOENT) return std::nullopt;
    }
    if (text_ == nullptr && may_be_asked_) text_.reset(std::fopen("/proc/self/maps", "re"));
    while (text_ != nullptr && last_.high <= address) {
      const std::optional<MappedRange> next = read_line();
      if (!next) return std::nullopt;
      last_ = *next;
    }
    return text_ == nullptr ? std::nullopt : std::optional(last_);
  }
  // Call it after at_or_above(). False: no /proc, no descriptor for it, or a system call filter.
  [[nodiscard]] bool can_be_listed() const { return descriptor_.valid() || text_ != nullptr; }

 private:
  // struct procmap_query of linux/fs.h, which older headers lack.
  struct Query {
    std::uint64_t bytes = sizeof(Query);
    std::uint64_t flags = kCoveringOrNext;
    std::uint64_t address = 0;
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint64_t permissions = 0;
    std::array<std::uint64_t, 2> page_and_offset{};
    std::uint64_t inode = 0;
    std::array<std::uint32_t, 4> device_and_sizes{};
    std::array<std::uint64_t, 2> name_and_build{};
  };
  static_assert(sizeof(Query) == 104);
  static constexpr std::uint64_t kCoveringOrNext = 0x10;
  static constexpr std::uint64_t kReadable = 1;
  static constexpr std::uint64_t kWritable = 2;

  std::optional<MappedRange> query(std::uintptr_t address) {
    Query query;
    query.address = address;
    if (::ioctl(descriptor_.get(), _IOWR('f', 17, Query), &query) != 0) return std::nullopt;
    return MappedRange{query.low, query.high, (query.permissions & kReadable) != 0,
                       (query.permissions & kWritable) != 0, query.inode != 0};
  }

  std::optional<MappedRange> read_line() {
    std::array<char, 512> line{};
    while (std::fgets(line.data(), line.size(), text_.get()) != nullptr) {
      unsigned long low = 0;
      unsigned long high = 0;
      unsigned long inode = 0;
      std::array<char, 5> permissions{};
      const int found = std::sscanf(line.data(), "%lx-%lx %4s %*x %*s %lu", &low, &high, permissions.data(), &inode);
      if (found != 4) continue;
      return MappedRange{low, high, permissions[0] != '-', permissions[1] != '-', inode != 0};
    }
    return std::nullopt;
  }

  bool may_be_asked_ = may_make_rare_calls();
  UniqueFd descriptor_{may_be_asked_ ? ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC) : -1};
  UniqueFile text_;
  MappedRange last_;
};

// The kernel reads a word there before it rejects another argument.
bool kernel_reads_for_us(std::uintptr_t address) {
  constexpr std::size_t kSignalSetBytes = 8;
  constexpr int kNoSuchChange = -1;
  const auto* word = reinterpret_cast<const void*>(  // NOLINT(performance-no-int-to-ptr)
      address / kSignalSetBytes * kSignalSetBytes);
  const int saved = errno;
  const bool reads =
      ::syscall(SYS_rt_sigprocmask, kNoSuchChange, word, nullptr, kSignalSetBytes) == 0 || errno != EFAULT;
  errno = saved;
  return reads;
}

// Reads like another process would. True also if the system call is forbidden.
bool attach_reads(std::uintptr_t address) {
  if (!may_make_rare_calls()) return true;
  char byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{reinterpret_cast<void*>(address), 1};  // NOLINT(performance-no-int-to-ptr): it is an address
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1 || errno != EFAULT;
}

// Several times as fast as attach_reads(), and also checks the write permission. Linux 5.14.
bool populates(std::uintptr_t address, Access access) {
  const int advice = access == Access::read ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  return ::madvise(page_of(address), page_bytes(), advice) == 0;
}

bool can_populate() {
  static const bool can = [] {
    const int here = 0;
    return populates(reinterpret_cast<std::uintptr_t>(&here), Access::read);
  }();
  return can;
}

bool allows(const MappedRange& mapping, Access access) {
  return access == Access::read || mapping.writable;
}

Reachable reachable_page(const MappedRange& mapping, std::uintptr_t address, Access access) {
  if (!allows(mapping, access)) return Reachable::by_nobody;
  // Other processes may also read received data.
  const bool others_may = access == Access::read || mapping.readable;
  if (others_may && others_reach_page(address, access)) return Reachable::by_others;
  // userfaultfd provides pages to the process, not to the kernel. A file may end before its mapping.
  const bool may_come = mapping.readable && !mapping.of_file;
  return may_come || kernel_reads_for_us(address) ? Reachable::by_this_process : Reachable::by_nobody;
}

// By the permissions of the process's mappings.
std::optional<std::uintptr_t> first_forbidden(std::uintptr_t begin, std::uintptr_t end, Access access) {
  Mappings mappings;
  std::uintptr_t known = begin;  // everything below is allowed
  while (known < end) {
    const std::optional<MappedRange> mapping = mappings.at_or_above(known);
    if (!mapping) return mappings.can_be_listed() ? std::optional(known) : std::nullopt;
    const bool allowed = access == Access::read ? mapping->readable || mapping->writable : mapping->writable;
    if (mapping->low > known || !allowed) return known;
    known = mapping->high;
  }
  return std::nullopt;
}

// Reads a word of each page: a file may end before its mapping.
std::optional<std::uintptr_t> first_unreadable(std::uintptr_t begin, std::uintptr_t end) {
  const std::uintptr_t page = page_bytes();
  for (std::uintptr_t address = begin; address < end; address = (address / page + 1) * page) {
    if (!kernel_reads_for_us(address)) return address;
  }
  return std::nullopt;
}

}  // namespace

bool may_make_rare_calls() {
  return filter_of_this_thread() == filter_at_start;
}

std::optional<std::uintptr_t> first_inaccessible(const void* begin, std::uint64_t bytes, Access access) {
  const auto low = reinterpret_cast<std::uintptr_t>(begin);
  const std::optional<std::uintptr_t> forbidden = first_forbidden(low, low + bytes, access);
  const std::optional<std::uintptr_t> unreadable = first_unreadable(low, forbidden.value_or(low + bytes));
  return unreadable ? unreadable : forbidden;
}

bool others_reach_page(std::uintptr_t address, Access access) {
  return can_populate() ? populates(address, access) : attach_reads(address);
}

Reachable reachable(std::uintptr_t begin, std::uintptr_t end, Access access,
                    const std::function<void(const MappedRange&)>& others_reach) {
  Mappings mappings;
  Reachable all = Reachable::by_others;
  for (std::uintptr_t known = begin; known < end;) {
    std::optional<MappedRange> mapping = mappings.at_or_above(known);
    if (!mappings.can_be_listed()) mapping = MappedRange{begin, end, true, true, true};
    if (!mapping || mapping->low > known) return Reachable::by_nobody;
    const Reachable here = reachable_page(*mapping, known, access);
    if (here == Reachable::by_nobody) return here;
    if (here == Reachable::by_others) others_reach(*mapping);
    all = std::max(all, here);
    known = mapping->high;
  }
  return all;
}

}  // namespace outrigger
