#include "mpi/windows/own_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/unique_fd.hpp"

namespace outrigger::mpi {
namespace {

// A guard splits mappings, and the program may make further ones as long as it lasts. At the limit pages could not be
// given back.
constexpr std::size_t kSpareMappings = 2048;

struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_own = false;         // private and anonymous, readable and writable
  bool is_main_stack = false;  // of the main thread, as the kernel has made it

  [[nodiscard]] bool has(std::uintptr_t address) const { return begin <= address && address < end; }
};

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// "BEGIN-END PERMISSIONS OFFSET DEVICE INODE NAME"
Mapping parse_mapping(std::string_view line) {
  Mapping mapping;
  const std::string_view addresses = next_word(line);
  const std::size_t dash = std::min(addresses.find('-'), addresses.size() - 1);
  const char* const text = addresses.data();
  std::from_chars(text, text + dash, mapping.begin, 16);
  std::from_chars(text + dash + 1, text + addresses.size(), mapping.end, 16);
  const std::string_view permissions = next_word(line);
  next_word(line);
  next_word(line);
  const std::string_view inode = next_word(line);
  const std::string_view name = next_word(line);
  const bool is_plain = name.empty() || name == "[heap]" || name.starts_with("[anon:");
  mapping.is_own = permissions == "rw-p" && inode == "0" && is_plain;
  mapping.is_main_stack = name == "[stack]";
  return mapping;
}

// Calls `look` with each line.
template <class Look>
void for_each_line(const char* path, const Look& look) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 16384> buffer;  // a line has at most a path's length
  std::size_t kept = 0;
  while (file.valid()) {
    const ssize_t bytes = ::read(file.get(), buffer.data() + kept, buffer.size() - kept);
    if (bytes <= 0) return;
    std::string_view text(buffer.data(), kept + static_cast<std::size_t>(bytes));
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      look(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    kept = text.size();
    std::memmove(buffer.data(), text.data(), kept);
  }
}

std::size_t most_mappings() {
  static const std::size_t most = [] {
    std::size_t number = 65530;  // the usual limit
    for_each_line("/proc/sys/vm/max_map_count",
                  [&](std::string_view line) { std::from_chars(line.data(), line.data() + line.size(), number); });
    return number;
  }();
  return most;
}

}  // namespace

bool is_own_memory(std::span<const GuardedPages> pages) {
  std::array<std::uintptr_t, kMostGuardedRanges> reached{};  // each range is own memory up to here
  const auto count = std::min(pages.size(), reached.size());
  for (std::size_t i = 0; i < count; ++i) reached[i] = pages[i].begin;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  bool is_on_main_stack = false;
  std::size_t mappings = 0;
  for_each_line("/proc/self/maps", [&](std::string_view line) {  // in the order of their addresses
    const Mapping mapping = parse_mapping(line);
    ++mappings;
    is_on_main_stack = is_on_main_stack || (mapping.is_main_stack && mapping.has(here));
    for (std::size_t i = 0; i < count; ++i) {
      if (mapping.is_own && mapping.has(reached[i])) reached[i] = std::min(mapping.end, pages[i].end);
    }
  });
  return is_on_main_stack && count == pages.size() && mappings + kSpareMappings <= most_mappings() &&
         std::equal(pages.begin(), pages.end(), reached.begin(),
                    [](const GuardedPages& range, std::uintptr_t until) { return range.end == until; });
}

bool Threads::read() {
  struct Entry {  // struct linux_dirent64
    std::uint64_t inode;
    std::int64_t offset;
    std::uint16_t bytes;
    std::uint8_t type;
    char name[1];
  };
  count_ = 0;
  const UniqueFd directory(::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return false;
  alignas(Entry) std::array<char, 4096> buffer;
  while (true) {
    const long bytes = ::syscall(SYS_getdents64, directory.get(), buffer.data(), buffer.size());
    if (bytes <= 0) return bytes == 0;
    for (long at = 0; at < bytes;) {
      const char* const place = buffer.data() + at;
      const auto* entry = reinterpret_cast<const Entry*>(place);
      const std::string_view name(place + offsetof(Entry, name));
      at += entry->bytes;
      std::int32_t id = 0;
      std::from_chars(name.data(), name.data() + name.size(), id);
      if (id == 0) continue;  // "." and ".."
      if (count_ == kMost) return false;
      ids_[count_++] = id;
    }
  }
}

bool Threads::has(std::int32_t thread) const {
  return std::ranges::find(all(), thread) != all().end();
}

bool Threads::leave_unblocked(std::uint64_t signals) const {
  static constexpr std::string_view kBlocked = "SigBlk:\t";
  const auto leaves = [signals](std::int32_t id) {
    std::uint64_t blocked = 0;
    std::array<char, 64> path{};
    (void)std::snprintf(path.data(), path.size(), "/proc/self/task/%d/status", id);
    for_each_line(path.data(), [&](std::string_view line) {
      if (!line.starts_with(kBlocked)) return;
      std::from_chars(line.data() + kBlocked.size(), line.data() + line.size(), blocked, 16);
    });
    return (blocked & signals) == 0;
  };
  return std::ranges::all_of(all(), leaves);
}

void Threads::remove(const Threads& others) {
  const auto end = std::remove_if(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(count_),
                                  [&](std::int32_t id) { return others.has(id); });
  count_ = static_cast<std::size_t>(end - ids_.begin());
}

}  // namespace outrigger::mpi
