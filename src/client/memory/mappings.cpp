#include "client/memory/mappings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"

namespace outrigger::client {
namespace {

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Parses lines of the form "BEGIN-END PERMISSIONS ...", in hexadecimal digits, that may come in pieces.
class Lines {
 public:
  // The mapping whose addresses end with this character.
  std::optional<Mapping> take(char character) {
    if (character == '\n') {
      *this = Lines();
    } else if (part_ == Part::begin && character == '-') {
      part_ = Part::end;
    } else if (part_ == Part::end && character == ' ') {
      part_ = Part::rest;
      return mapping_;
    } else if (part_ != Part::rest) {
      std::uint64_t& number = part_ == Part::begin ? mapping_.begin : mapping_.end;
      number = number * 16 + static_cast<std::uint64_t>(character <= '9' ? character - '0' : character - 'a' + 10);
    }
    return std::nullopt;
  }

 private:
  enum class Part { begin, end, rest };
  Part part_ = Part::begin;
  Mapping mapping_;
};

std::string_view read_some(const UniqueFd& file, std::array<char, 4096>& buffer) {
  ssize_t bytes = 0;
  do {
    bytes = ::read(file.get(), buffer.data(), buffer.size());
  } while (bytes < 0 && errno == EINTR);
  return {buffer.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

}  // namespace

bool in_one_mapping(std::uint64_t begin, std::uint64_t end) {
  const UniqueFd file(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return true;
  std::array<char, 4096> buffer{};
  Lines lines;
  for (std::string_view text = read_some(file, buffer); !text.empty(); text = read_some(file, buffer)) {
    for (const char character : text) {
      const std::optional<Mapping> mapping = lines.take(character);
      if (mapping && mapping->end > begin) return mapping->begin <= begin && end <= mapping->end;
    }
  }
  return false;
}

}  // namespace outrigger::client
