#include "protocol/options/secret_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

namespace outrigger {

Result<Secret> secret_of_text(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  Secret secret{};
  const bool hexadecimal = text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  if (!hexadecimal || text.size() != 2 * secret.size()) {
    return Error{"the job's secret is not a line of 32 hexadecimal digits"};
  }
  for (std::uint8_t& byte : secret) {
    (void)std::from_chars(text.data(), text.data() + 2, byte, 16);
    text.remove_prefix(2);
  }
  return secret;
}

// Reads byte by byte: input after the line belongs to others.
Result<Secret> read_secret_line() {
  constexpr std::size_t kMostBytes = 2048;
  std::string line;
  char letter = 0;
  while (line.size() < kMostBytes) {
    const ssize_t got = ::read(STDIN_FILENO, &letter, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || letter == '\n') break;
    line += letter;
  }
  Result<Secret> secret = secret_of_text(line);
  if (!secret) return Error{secret.error() + "; the launcher writes it to standard input"};
  return secret;
}

}  // namespace outrigger
