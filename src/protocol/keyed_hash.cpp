#include "protocol/keyed_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace outrigger {
namespace {

struct State {
  std::array<std::uint64_t, 4> v;

  void round() {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i) round();
  }
  void take(std::uint64_t word) {
    v[3] ^= word;
    rounds(2);
    v[0] ^= word;
  }
  [[nodiscard]] std::uint64_t digest() {
    rounds(4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
  }
};

}  // namespace

Tag keyed_hash(const Secret& key, std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 2> k{};
  static_assert(sizeof(k) == sizeof(Secret));
  std::memcpy(k.data(), key.data(), key.size());
  State state{{k[0] ^ 0x736f6d6570736575ULL, k[1] ^ 0x646f72616e646f6dULL ^ 0xEEU, k[0] ^ 0x6c7967656e657261ULL,
               k[1] ^ 0x7465646279746573ULL}};
  const std::uint64_t length = bytes.size();
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state.take(word);
    bytes = bytes.subspan(sizeof(word));
  }
  std::uint64_t last = length << 56U;
  for (std::size_t i = 0; i < bytes.size(); ++i) last |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  state.take(last);
  std::array<std::uint64_t, 2> digest{};
  state.v[2] ^= 0xEEU;
  digest[0] = state.digest();
  state.v[1] ^= 0xDDU;
  digest[1] = state.digest();
  Tag tag{};
  std::memcpy(tag.data(), digest.data(), tag.size());
  return tag;
}

bool same_tag(const Tag& left, const Tag& right) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) difference |= static_cast<unsigned>(left[i] ^ right[i]);
  return difference == 0;
}

Result<Secret> secret_of_text(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  constexpr std::size_t kLeastDigits = 32;
  constexpr std::size_t kMostDigits = 1024;
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  const bool hexadecimal = text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  if (!hexadecimal || text.size() < kLeastDigits || text.size() > kMostDigits) {
    return Error{"the job's secret is not a line of at least 32 hexadecimal digits"};
  }
  return Secret(keyed_hash(Secret{}, std::as_bytes(std::span(text))));
}

}  // namespace outrigger
