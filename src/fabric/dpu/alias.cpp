#include "fabric/dpu/alias.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/ucx_exports.hpp"

namespace outrigger::fabric::dpu {
namespace {

constexpr std::size_t kTriedBytes = 4096;
// UCX may read past the end of a handle with a wrong length: it finds zeros there.
constexpr std::size_t kPaddingBytes = 4096;

}  // namespace

ucp_mem_h UcxImporter::import(std::span<const std::byte> exported) {
  if (context_ == nullptr || exported.empty()) return nullptr;
  std::vector<std::byte> padded(exported.size() + kPaddingBytes);
  std::ranges::copy(exported, padded.begin());
  exports::MapParameters parameters;
  parameters.field_mask = exports::kMapFieldExported;
  parameters.exported_memh_buffer = padded.data();
  ucp_mem_h memory = nullptr;
  const auto* as_ucx = reinterpret_cast<const ucp_mem_map_params_t*>(&parameters);
  return ucp_mem_map(context_, as_ucx, &memory) == UCS_OK ? memory : nullptr;
}

void UcxImporter::release(ucp_mem_h memory) {
  if (context_ != nullptr) (void)ucp_mem_unmap(context_, memory);
}

bool exports_memory(ucp_context_h context) {
  const exports::Calls calls = exports::find_calls(RTLD_DEFAULT);
  if (!calls) return false;
  std::vector<std::byte> tried(kTriedBytes);
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  parameters.address = tried.data();
  parameters.length = tried.size();
  ucp_mem_h memory = nullptr;
  if (ucp_mem_map(context, &parameters, &memory) != UCS_OK) return false;
  const bool works = !exports::pack(calls, memory).empty();
  (void)ucp_mem_unmap(context, memory);
  return works;
}

ImportedPtr import_memory(const std::shared_ptr<Importer>& importer, std::span<const std::byte> exported) {
  ucp_mem_h memory = exported.empty() ? nullptr : importer->import(exported);
  return memory != nullptr ? std::make_shared<const ImportedMemory>(importer, memory) : nullptr;
}

ImportedPtr ImportCache::use(const Exported& exported) {
  if (exported.handle.empty()) return nullptr;
  const auto found = by_name_.find(name_of(exported.rank, exported.region));
  if (found != by_name_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->memory;
  }
  if (!drop_overlapping(exported) || !make_room()) return nullptr;
  entries_.push_front(
      Entry{exported.rank, exported.region, exported.base, exported.bytes, import_memory(importer_, exported.handle)});
  by_name_.emplace(name_of(exported.rank, exported.region), entries_.begin());
  return entries_.front().memory;
}

void ImportCache::refuse(WorldRank rank, RegionId region) {
  const auto found = by_name_.find(name_of(rank, region));
  if (found != by_name_.end()) found->second->memory.reset();
}

void ImportCache::forget(WorldRank rank, RegionId region) {
  const auto found = by_name_.find(name_of(rank, region));
  if (found != by_name_.end()) drop(found->second);
}

void ImportCache::forget(WorldRank rank) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    entry = entry->rank == rank ? drop(entry) : std::next(entry);
  }
}

ImportCache::Entries::iterator ImportCache::drop(Entries::iterator entry) {
  by_name_.erase(name_of(entry->rank, entry->region));
  return entries_.erase(entry);
}

bool ImportCache::drop_overlapping(const Exported& exported) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool apart = entry->rank != exported.rank || entry->memory == nullptr ||
                       entry->base >= exported.base + exported.bytes || exported.base >= entry->base + entry->bytes;
    if (!apart && in_use(*entry)) return false;
    entry = apart ? std::next(entry) : drop(entry);
  }
  return true;
}

bool ImportCache::make_room() {
  for (auto entry = entries_.end(); entries_.size() >= most_ && entry != entries_.begin();) {
    --entry;
    if (!in_use(*entry)) entry = drop(entry);
  }
  return entries_.size() < most_;
}

}  // namespace outrigger::fabric::dpu
