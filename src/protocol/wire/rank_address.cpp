#include "protocol/wire/rank_address.hpp"

#include <array>
#include <cstdio>
#include <utility>

#include "protocol/wire/plain_bytes.hpp"

namespace outrigger {
namespace {

constexpr std::uint32_t kMagic = 0x4152524F;  // "ORRA"

struct Plain {
  std::uint32_t magic = kMagic;
  std::uint32_t worker_bytes = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t trial_key_bytes = 0;
  std::uint32_t trial_export_bytes = 0;
  std::int32_t pid = 0;
  std::uint64_t segment_base = 0;
  std::uint64_t machine = 0;
  std::uint64_t trial_base = 0;
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
};

constexpr std::uint64_t kPage = 4096;

std::uint32_t length_of(const std::vector<std::byte>& bytes) {
  return static_cast<std::uint32_t>(bytes.size());
}

bool is_sound(const Plain& plain, std::uint64_t rest_bytes) {
  const std::uint64_t claimed =
      std::uint64_t{plain.worker_bytes} + plain.key_bytes + plain.trial_key_bytes + plain.trial_export_bytes;
  const bool tries = plain.trial_key_bytes != 0;
  return plain.magic == kMagic && plain.pid >= 0 && plain.worker_bytes != 0 && plain.key_bytes != 0 &&
         plain.segment_base % kPage == 0 && claimed == rest_bytes && tries == (plain.trial_export_bytes != 0) &&
         tries == (plain.trial_base != 0) && plain.trial_base % kPage == 0;
}

// At most what `rest` has.
std::vector<std::byte> next(std::span<const std::byte>& rest, std::uint32_t bytes) {
  std::span<const std::byte> taken;
  static_cast<void>(take_bytes(rest, bytes, taken));
  return {taken.begin(), taken.end()};
}

}  // namespace

std::vector<std::byte> encode_rank_address(const RankAddress& address) {
  const ExportTrial trial = address.trial.value_or(ExportTrial{});
  Plain plain;
  plain.worker_bytes = length_of(address.worker);
  plain.key_bytes = length_of(address.segment_key);
  plain.trial_key_bytes = length_of(trial.key);
  plain.trial_export_bytes = length_of(trial.exported);
  plain.segment_base = address.segment_base;
  plain.machine = address.machine;
  plain.trial_base = trial.base;
  plain.pid = address.process.pid;
  plain.probe_address = address.process.probe_address;
  plain.probe_value = address.process.probe_value;
  std::vector<std::byte> bytes;
  append(bytes, plain);
  for (const auto* part : {&address.worker, &address.segment_key, &trial.key, &trial.exported}) {
    append_bytes(bytes, *part);
  }
  return bytes;
}

Result<RankAddress> decode_rank_address(std::span<const std::byte> bytes) {
  const Error malformed{"a rank's address is malformed"};
  Plain plain;
  if (bytes.size() > kMaxRankAddressBytes || !take(bytes, plain) || !is_sound(plain, bytes.size())) return malformed;
  RankAddress address;
  address.segment_base = plain.segment_base;
  address.machine = plain.machine;
  address.process = {plain.pid, plain.probe_address, plain.probe_value};
  address.worker = next(bytes, plain.worker_bytes);
  address.segment_key = next(bytes, plain.key_bytes);
  if (plain.trial_base == 0) return address;
  ExportTrial trial{plain.trial_base, next(bytes, plain.trial_key_bytes), {}};
  trial.exported = next(bytes, plain.trial_export_bytes);
  address.trial = std::move(trial);
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
