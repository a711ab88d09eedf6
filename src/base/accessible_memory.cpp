#include "base/accessible_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace outrigger {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};

// By the permissions of the process's mappings, which are listed by address.
std::optional<std::uintptr_t> first_forbidden(std::uintptr_t begin, std::uintptr_t end, Access access) {
  const std::unique_ptr<std::FILE, CloseFile> maps(std::fopen("/proc/self/maps", "re"));
  if (maps == nullptr) return std::nullopt;
  std::array<char, 512> line{};
  std::uintptr_t known = begin;  // all below is allowed
  while (known < end && std::fgets(line.data(), line.size(), maps.get()) != nullptr) {
    unsigned long low = 0;
    unsigned long high = 0;
    std::array<char, 5> permissions{};
    if (std::sscanf(line.data(), "%lx-%lx %4s", &low, &high, permissions.data()) != 3) continue;
    const bool allowed = permissions[access == Access::read ? 0 : 1] != '-';
    if (high <= known) continue;
    if (low > known || !allowed) return known;
    known = high;
  }
  return known < end ? std::optional(known) : std::nullopt;
}

// By a byte of each page, which the kernel reads for us: a file may end before its mapping.
std::optional<std::uintptr_t> first_unreadable(std::uintptr_t begin, std::uintptr_t end) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::uintptr_t address = begin; address < end; address = (address / page + 1) * page) {
    char byte = 0;
    const iovec local{&byte, 1};
    const iovec remote{reinterpret_cast<void*>(address), 1};  // NOLINT(performance-no-int-to-ptr): it is an address
    if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1) continue;
    return errno == EFAULT ? std::optional(address) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uintptr_t> first_inaccessible(const void* begin, std::uint64_t bytes, Access access) {
  const auto low = reinterpret_cast<std::uintptr_t>(begin);
  const std::optional<std::uintptr_t> forbidden = first_forbidden(low, low + bytes, access);
  const std::optional<std::uintptr_t> unreadable = first_unreadable(low, forbidden.value_or(low + bytes));
  return unreadable ? unreadable : forbidden;
}

}  // namespace outrigger
