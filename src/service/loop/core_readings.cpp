#include "service/loop/core_readings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace outrigger::service {
namespace {

// Takes the next number of a blank-separated list; nullopt if there is none.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

RunTimesReader::RunTimesReader() : file_(::open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC)) {}

std::optional<RunTimes> RunTimesReader::read() {
  if (!file_.valid()) return std::nullopt;
  std::array<char, 96> buffer{};
  const ssize_t bytes = ::pread(file_.get(), buffer.data(), buffer.size(), 0);
  std::string_view text(buffer.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  const std::optional<std::uint64_t> ran_ns = take_number(text);
  const std::optional<std::uint64_t> waited_ns = take_number(text);
  if (!ran_ns || !waited_ns || *ran_ns == 0) {  // all zero: the kernel does not count
    file_ = UniqueFd();
    return std::nullopt;
  }
  return RunTimes{std::chrono::nanoseconds(*ran_ns), std::chrono::nanoseconds(*waited_ns)};
}

// cpuN user nice system idle iowait ..., in ticks
std::optional<std::chrono::nanoseconds> IdleTimeReader::read() const {
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  if (cpu_ < 0 || ticks_per_second <= 0) return std::nullopt;
  std::ifstream file("/proc/stat");
  const std::string name = "cpu" + std::to_string(cpu_) + " ";
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    if (!line.starts_with(name)) continue;
    std::string_view rest = std::string_view(line).substr(name.size());
    for (int i = 0; i < 3; ++i) (void)take_number(rest);
    const std::optional<std::uint64_t> idle = take_number(rest);
    const std::optional<std::uint64_t> waiting = take_number(rest);
    if (!idle || !waiting) return std::nullopt;
    return std::chrono::nanoseconds((*idle + *waiting) *
                                    (1'000'000'000ULL / static_cast<unsigned long>(ticks_per_second)));
  }
  return std::nullopt;
}

}  // namespace outrigger::service
