#include "service/keeper/supervise/captured_stderr.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace outrigger::service {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;  // capacity of the pipe
constexpr std::size_t kMostShown = 160;
// Words that assert(), std::terminate(), UCX and the sanitizers print.
constexpr std::array<std::string_view, 6> kTells{"ssert", "atal", "ATAL", "terminate called", "what():", "ERROR:"};

// Not for frames of a backtrace, whose functions may have such names: "1  libucs.so.0(ucs_fatal_error_message+0xb6)
// [...]".
bool tells(std::string_view line) {
  if (line.find("+0x") != line.npos) return false;
  return std::ranges::any_of(kTells, [line](std::string_view word) { return line.find(word) != line.npos; });
}

}  // namespace

std::string_view telling_line(std::string_view text) {
  std::string_view last;
  while (!text.empty()) {
    const std::size_t begin = text.find_last_of('\n');
    const std::string_view line = text.substr(begin == text.npos ? 0 : begin + 1);
    text = text.substr(0, begin == text.npos ? 0 : begin);
    if (tells(line)) return line;
    if (last.empty()) last = line;
  }
  return last;
}

CapturedStderr CapturedStderr::open() {
  CapturedStderr words;
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) != 0) return words;
  words.read_end_.reset(fds[0]);
  words.write_end_.reset(fds[1]);
  return words;
}

std::string CapturedStderr::take() {
  std::string text(kMostBytes, '\0');
  std::size_t bytes = 0;
  while (read_end_.valid() && bytes < text.size()) {
    const ssize_t got = ::read(read_end_.get(), text.data() + bytes, text.size() - bytes);
    if (got <= 0) break;
    bytes += static_cast<std::size_t>(got);
  }
  read_end_.reset();
  text.resize(bytes);
  std::string line(telling_line(text).substr(0, kMostShown));
  std::ranges::replace_if(
      line, [](unsigned char byte) { return byte < ' ' || byte == 0x7F; }, ' ');
  return line;
}

}  // namespace outrigger::service
