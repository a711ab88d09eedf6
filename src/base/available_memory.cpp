#include "base/available_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_text.hpp"

namespace outrigger {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// The number after `name` and blanks; nullopt for "max" or a missing name.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
  const std::size_t found = text.find(name);
  if (found == std::string_view::npos) return std::nullopt;
  text.remove_prefix(found + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

std::uint64_t available_in_machine() {
  const auto kilobytes = number_after(text_of_file("/proc/meminfo"), "MemAvailable:");
  if (kilobytes) return *kilobytes * 1024;
  // Without /proc: the machine's total memory.
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The tightest limit of this process's control group (version 2) and its parents.
std::uint64_t available_in_control_groups() {
  const std::string groups = text_of_file("/proc/self/cgroup");
  const std::size_t line = groups.find("0::/");
  if (line == std::string::npos) return kUnlimited;
  const std::size_t begin = line + 3;
  std::string path = groups.substr(begin, groups.find('\n', begin) - begin);
  std::uint64_t available = kUnlimited;
  while (true) {
    const std::string directory = "/sys/fs/cgroup" + path;
    const auto most = number_after(text_of_file(directory + "/memory.max"), "");
    const auto used = number_after(text_of_file(directory + "/memory.current"), "");
    if (most && used) available = std::min(available, *most - std::min(*most, *used));
    if (path.empty()) return available;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

std::uint64_t available_memory_bytes() {
  return std::min(available_in_machine(), available_in_control_groups());
}

}  // namespace outrigger
