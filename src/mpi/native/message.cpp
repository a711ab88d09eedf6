#include "mpi/native/message.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/no_cancellation.hpp"

namespace outrigger::mpi {

MessageLine::MessageLine(const char* format, std::va_list arguments) {
  std::size_t length = kMessagePrefix.copy(text_.data(), kMessagePrefix.size());
  const int words = std::vsnprintf(text_.data() + length, text_.size() - length, format, arguments);
  length = std::min(length + static_cast<std::size_t>(std::max(words, 0)), text_.size() - 1);
  text_[length] = '\n';
  bytes_ = length + 1;
}

void MessageLine::write() const {
  const NoCancellation whole;  // the caller may hold a lock
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), bytes_);
}

std::string_view MessageLine::words() const {
  return std::string_view(text_.data(), bytes_ - 1).substr(kMessagePrefix.size());
}

void print(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const MessageLine line(format, arguments);
  va_end(arguments);
  line.write();
}

}  // namespace outrigger::mpi
