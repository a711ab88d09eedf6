#include "protocol/build_version.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

namespace outrigger {
namespace {

constexpr std::uint32_t kParts = 3;
constexpr std::uint32_t kMostOfPart = 255;

static_assert(kProtocolVersion <= kMostOfPart, "a build's version has a byte for its protocol");

// Volatile, so that it is read at run time: tests make a program of another release by changing digits in a copy.
constexpr char kTitle[] = "outrigger release ";
const volatile char kMarked[] = "outrigger release " OUTRIGGER_VERSION;

std::uint32_t parse() {
  std::uint32_t version = 0;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  for (std::size_t i = sizeof(kTitle) - 1; i + 1 < sizeof(kMarked); ++i) {
    const char letter = kMarked[i];
    if (letter == '.') {
      version = version << 8U | part;
      part = 0;
      ++parts;
    } else if (letter >= '0' && letter <= '9') {
      part = (part * 10 + static_cast<std::uint32_t>(letter - '0')) & kMostOfPart;
    }
  }
  version = version << 8U | part;
  for (; parts < kParts; ++parts) version <<= 8U;
  return version << 8U | kProtocolVersion;
}

}  // namespace

std::uint32_t build_version() {
  static const std::uint32_t version = parse();
  return version;
}

std::string build_version_text(std::uint32_t version) {
  std::array<char, 64> text{};
  const unsigned protocol = version & kMostOfPart;
  if (version <= kMostOfPart) {
    std::snprintf(text.data(), text.size(), "an older release (protocol %u)", protocol);
  } else {
    std::snprintf(text.data(), text.size(), "%u.%u.%u (protocol %u)", version >> 24U, version >> 16U & kMostOfPart,
                  version >> 8U & kMostOfPart, protocol);
  }
  return text.data();
}

std::string other_build_text(std::uint32_t theirs) {
  std::string text = "the other end is of another version, ";
  text += build_version_text(theirs);
  text += "; this one is ";
  text += build_version_text(build_version());
  return text;
}

}  // namespace outrigger
