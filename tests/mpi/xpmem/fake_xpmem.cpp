// A stand-in for XPMEM's library without the kernel module. It attaches another process's shared anonymous memory by
// /proc/PID/map_files; the rest of an attachment is inaccessible, like missing memory of that process. Unlike the
// module it does not follow later mappings.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

namespace {

struct Place {
  std::int64_t access;
  off_t offset;
};

struct Range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

constexpr int kVersion = 0x26000;
constexpr int kPermitMode = 1;
constexpr int kReadWrite = 2;

std::map<void*, std::size_t>& attachments() {
  static auto* all = new std::map<void*, std::size_t>;
  return *all;
}

// Parses a line of /proc/PID/maps; false: not shared anonymous memory.
bool parse(const std::string& line, Range& range) {
  char access[5] = {};
  if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &range.first, &range.end, access) != 3) return false;
  return access[3] == 's' && line.find("/dev/zero") != std::string::npos;
}

// The part of the mapping that lies in the attachment.
void overlay(std::int64_t pid, const Range& there, std::uint64_t wanted, std::size_t bytes, char* base) {
  const std::uint64_t first = std::max(there.first, wanted);
  const std::uint64_t end = std::min(there.end, wanted + bytes);
  if (first >= end) return;
  char name[96];
  std::snprintf(name, sizeof name, "/proc/%" PRId64 "/map_files/%" PRIx64 "-%" PRIx64, pid, there.first, there.end);
  const int fd = ::open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  ::mmap(base + (first - wanted), end - first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
         static_cast<off_t>(first - there.first));
  ::close(fd);
}

}  // namespace

extern "C" {

int xpmem_version() {
  return kVersion;
}

// All of a process's memory is one segment with the process's number.
std::int64_t xpmem_make(void* address, std::size_t bytes, int permit_type, void* permit) {
  const bool known = address == nullptr && bytes == static_cast<std::size_t>(-1) && permit_type == kPermitMode &&
                     reinterpret_cast<std::uintptr_t>(permit) == 0600;
  return known ? ::getpid() : -1;
}

int xpmem_remove(std::int64_t segment) {
  return segment == ::getpid() ? 0 : -1;
}

std::int64_t xpmem_get(std::int64_t segment, int flags, int permit_type, void*) {
  return segment > 0 && flags == kReadWrite && permit_type == kPermitMode ? segment : -1;
}

int xpmem_release(std::int64_t access) {
  return access > 0 ? 0 : -1;
}

void* xpmem_attach(Place place, std::size_t bytes, void* where) {
  void* base = ::mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return reinterpret_cast<void*>(-1);
  attachments()[base] = bytes;
  std::ifstream maps("/proc/" + std::to_string(place.access) + "/maps");
  Range range;
  for (std::string line; std::getline(maps, line);) {
    if (!parse(line, range)) continue;
    overlay(place.access, range, static_cast<std::uint64_t>(place.offset), bytes, static_cast<char*>(base));
  }
  return base;
}

int xpmem_detach(void* base) {
  const auto found = attachments().find(base);
  if (found == attachments().end()) return -1;
  ::munmap(base, found->second);
  attachments().erase(found);
  return 0;
}

}  // extern "C"
