#include "protocol/rank_address.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace outrigger {
namespace {

constexpr std::uint32_t kMagic = 0x4152524F;  // "ORRA"

struct Plain {
  std::uint32_t magic = kMagic;
  std::uint32_t worker_bytes = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t segment_base = 0;
  std::uint64_t machine = 0;
};

}  // namespace

std::vector<std::byte> encode_rank_address(const RankAddress& address) {
  Plain plain;
  plain.worker_bytes = static_cast<std::uint32_t>(address.worker.size());
  plain.key_bytes = static_cast<std::uint32_t>(address.segment_key.size());
  plain.segment_base = address.segment_base;
  plain.machine = address.machine;
  std::vector<std::byte> bytes(sizeof(plain) + address.worker.size() + address.segment_key.size());
  std::memcpy(bytes.data(), &plain, sizeof(plain));
  const auto rest = std::ranges::copy(address.worker, bytes.begin() + sizeof(plain)).out;
  std::ranges::copy(address.segment_key, rest);
  return bytes;
}

Result<RankAddress> decode_rank_address(std::span<const std::byte> bytes) {
  Plain plain;
  if (bytes.size() < sizeof(plain) || bytes.size() > kMaxRankAddressBytes)
    return Error{"a rank's address is malformed"};
  std::memcpy(&plain, bytes.data(), sizeof(plain));
  const std::span<const std::byte> rest = bytes.subspan(sizeof(plain));
  if (plain.magic != kMagic || plain.reserved != 0 || plain.worker_bytes == 0 || plain.key_bytes == 0 ||
      plain.segment_base % 4096 != 0 || std::uint64_t{plain.worker_bytes} + plain.key_bytes != rest.size()) {
    return Error{"a rank's address is malformed"};
  }
  RankAddress address;
  address.segment_base = plain.segment_base;
  address.machine = plain.machine;
  const auto worker = rest.first(plain.worker_bytes);
  const auto key = rest.subspan(plain.worker_bytes);
  address.worker.assign(worker.begin(), worker.end());
  address.segment_key.assign(key.begin(), key.end());
  return address;
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
