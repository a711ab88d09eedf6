#include "protocol/wire/rank_address.hpp"

#include <array>
#include <cstdio>
#include <utility>

namespace outrigger {

Result<RankAddress> decode_rank_address(std::span<const std::byte> bytes) {
  std::optional<RankAddress> address = bytes.size() > kMaxRankAddressBytes ? std::nullopt : decoded<RankAddress>(bytes);
  if (!address) return Error{"a rank's address is malformed"};
  return std::move(*address);
}

std::uint64_t this_machine() {
  std::array<char, 64> text{};
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == nullptr) return 0;
  const std::size_t bytes = std::fread(text.data(), 1, text.size(), file);
  (void)std::fclose(file);
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  for (std::size_t i = 0; i < bytes; ++i) digest = (digest ^ static_cast<unsigned char>(text[i])) * 0x100000001B3ULL;
  return digest;
}

}  // namespace outrigger
