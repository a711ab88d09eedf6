#include "mpi/native/message.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "base/last_words.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// A launcher that is told to end the job may throw away what it has not read.
constexpr std::chrono::milliseconds kForTheLauncherToRead{1000};

void write_line(const char* format, std::va_list arguments) {
  std::array<char, 1024> line{};
  int length = std::snprintf(line.data(), line.size(), "outrigger: ");
  length += std::vsnprintf(line.data() + length, line.size() - static_cast<std::size_t>(length), format, arguments);
  auto bytes = static_cast<std::size_t>(length);
  if (bytes > line.size() - 1) bytes = line.size() - 1;
  line[bytes] = '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), bytes + 1);
}

}  // namespace

void print(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void die(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
  abort_job();
}

void abort_job() {
  wait_until_read(STDERR_FILENO, kForTheLauncherToRead);
  real().Abort(constants().comm_world, 1);
  std::_Exit(1);
}

}  // namespace outrigger::mpi
