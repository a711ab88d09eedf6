// An entry of a rank's key table against arbitrary bytes: what is let through lies inside the entry, one behind the
// other, and packs to the same entry again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "protocol/shared/exported_memory.hpp"

namespace {

using namespace outrigger;

void check(const KeyEntry& entry) {
  const auto keys = keys_of(entry);
  if (!keys) return;
  const std::byte* begin = entry.key.data();
  if (keys->key.empty() || keys->key.data() != begin) std::abort();
  if (keys->key.size() + keys->exported.size() > entry.key.size()) std::abort();
  if (!keys->exported.empty() && keys->exported.data() != begin + keys->key.size()) std::abort();
  KeyEntry again;
  if (!pack_keys(*keys, again)) std::abort();
  if (again.key_bytes != entry.key_bytes || again.export_bytes != entry.export_bytes) std::abort();
  const std::size_t bytes = keys->key.size() + keys->exported.size();
  if (!std::equal(begin, begin + bytes, again.key.begin())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  KeyEntry entry;
  std::memcpy(&entry, data, std::min(size, sizeof(entry)));
  check(entry);
  // Lengths about which there is something to decide.
  entry.key_bytes %= 2 * kKeyBytes;
  entry.export_bytes %= 2 * kKeyBytes;
  check(entry);
  return 0;
}
