#include "client/memory/region.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/shared_memory.hpp"
#include "client/memory/whole_pages.hpp"

namespace outrigger::client {

void Region::unmap() {
  if (base != nullptr && use != RegionUse::heap) ::munmap(base, bytes);
  base = nullptr;
  fd.reset();
}

std::optional<Region> create_region(std::uint64_t bytes) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) / 2;
  if (bytes == 0 || bytes > kMost) return std::nullopt;
  Region region{RegionId(), RegionUse::internal, nullptr, whole_pages(bytes), UniqueFd()};
  Result<UniqueFd> fd = create_sealed_memory("outrigger-region", region.bytes, Backing::reserved);
  if (!fd) return std::nullopt;
  region.fd = std::move(fd).value();
  void* base = ::mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd.get(), 0);
  if (base == MAP_FAILED) return std::nullopt;
  region.base = static_cast<std::byte*>(base);
  if (::madvise(base, region.bytes, MADV_DONTFORK) != 0) {
    region.unmap();
    return std::nullopt;
  }
  return region;
}

void RegionTable::insert(Region region) {
  const auto place =
      std::upper_bound(regions_.begin(), regions_.end(), region.address(),
                       [](std::uint64_t address, const Region& other) { return address < other.address(); });
  regions_.insert(place, std::move(region));
}

template <class Wanted>
std::optional<Region> RegionTable::take_first(const Wanted& wanted) {
  const auto found = std::find_if(regions_.begin(), regions_.end(), wanted);
  if (found == regions_.end()) return std::nullopt;
  Region region = std::move(*found);
  regions_.erase(found);
  return region;
}

std::optional<Region> RegionTable::take(const void* base) {
  return take_first([base](const Region& region) { return region.base == base && region.use == RegionUse::internal; });
}

std::optional<Region> RegionTable::take_heap() {
  return take_first([](const Region& region) { return region.use == RegionUse::heap; });
}

const Region* RegionTable::search(std::uint64_t address, std::uint64_t bytes) {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](std::uint64_t wanted, const Region& region) { return wanted < region.address(); });
  if (after == regions_.begin()) return nullptr;
  const auto place = std::prev(after);
  if (!place->holds(address, bytes)) return nullptr;
  recent_ = static_cast<std::size_t>(place - regions_.begin());
  return &*place;
}

}  // namespace outrigger::client
