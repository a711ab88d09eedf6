// Prints messages to stderr. Needs no MPI.
#pragma once

#include <array>
#include <cstdarg>
#include <cstddef>
#include <string_view>

namespace outrigger::mpi {

// Prefix of all printed messages.
inline constexpr std::string_view kMessagePrefix = "outrigger: ";

// Writes "outrigger: <text>\n" to stderr in one piece. Allocates nothing.
[[gnu::format(printf, 1, 2)]] void print(const char* format, ...);

class MessageLine {
 public:
  MessageLine(const char* format, std::va_list arguments);
  void write() const;
  // Without the prefix and the end of the line.
  [[nodiscard]] std::string_view words() const;

 private:
  std::array<char, 1024> text_{};
  std::size_t bytes_ = 0;  // with the end of the line
};

}  // namespace outrigger::mpi
