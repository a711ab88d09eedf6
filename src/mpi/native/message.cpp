#include "mpi/native/message.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/last_words.hpp"
#include "base/no_cancellation.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {
namespace {

// A launcher that is told to end the job may throw away what it has not read.
constexpr std::chrono::milliseconds kForTheLauncherToRead{1000};

constexpr int kExitCode = 1;
constexpr std::string_view kPrefix = "outrigger: ";

struct Line {
  std::array<char, 1024> text{};
  std::size_t bytes = 0;  // with its end
};

Line make_line(const char* format, std::va_list arguments) {
  Line line;
  std::array<char, 1024>& text = line.text;
  std::size_t length = kPrefix.copy(text.data(), kPrefix.size());
  const int words = std::vsnprintf(text.data() + length, text.size() - length, format, arguments);
  length = std::min(length + static_cast<std::size_t>(std::max(words, 0)), text.size() - 1);
  text[length] = '\n';
  line.bytes = length + 1;
  return line;
}

void write_line(const Line& line) {
  const NoCancellation whole;  // the caller may hold a lock
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.text.data(), line.bytes);
}

}  // namespace

void print(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  write_line(make_line(format, arguments));
  va_end(arguments);
}

void die(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const Line line = make_line(format, arguments);
  va_end(arguments);
  write_line(line);
  abort_job(std::string_view(line.text.data(), line.bytes - 1).substr(kPrefix.size()));
}

void abort_job(std::string_view why) {
  note_abort(kExitCode, std::string(why));
  wait_until_read(STDERR_FILENO, kForTheLauncherToRead);
  real().Abort(constants().comm_world, kExitCode);
  std::_Exit(kExitCode);
}

}  // namespace outrigger::mpi
