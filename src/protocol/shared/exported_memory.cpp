#include "protocol/shared/exported_memory.hpp"

#include <algorithm>

namespace outrigger {

bool pack_keys(const PackedKeys& keys, KeyEntry& entry) {
  if (keys.key.empty() || keys.key.size() > entry.key.size()) return false;
  const bool both = keys.exported.size() <= entry.key.size() - keys.key.size();
  const std::span<const std::byte> exported = both ? keys.exported : std::span<const std::byte>();
  std::ranges::copy(exported, std::ranges::copy(keys.key, entry.key.begin()).out);
  entry.key_bytes = static_cast<std::uint32_t>(keys.key.size());
  entry.export_bytes = static_cast<std::uint32_t>(exported.size());
  return true;
}

std::optional<PackedKeys> keys_of(const KeyEntry& entry) {
  if (entry.key_bytes == 0 || entry.key_bytes > entry.key.size()) return std::nullopt;
  if (entry.export_bytes > entry.key.size() - entry.key_bytes) return std::nullopt;
  const std::span<const std::byte> all(entry.key);
  return PackedKeys{all.first(entry.key_bytes), all.subspan(entry.key_bytes, entry.export_bytes)};
}

}  // namespace outrigger
