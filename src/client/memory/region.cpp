#include "client/memory/region.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/shared_memory.hpp"

namespace outrigger::client {
namespace {

std::uint64_t whole_pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// The descriptors belong to the program: regions that keep theirs take from the lower half of what it may open. Asked
// before the region is created, as creating it is expensive.
bool leaves_descriptors_for_the_program() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  const UniqueFd next(::memfd_create("outrigger-probe", MFD_CLOEXEC));
  return next.valid() && static_cast<rlim_t>(next.get()) < limit.rlim_cur / 2;
}

}  // namespace

void Region::unmap() {
  if (base != nullptr && use != RegionUse::heap) ::munmap(base, bytes);
  base = nullptr;
  fd.reset();
}

bool Region::make_private() {
  const void* mapped =
      ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd.get(), 0);
  if (mapped == MAP_FAILED) return false;
  fd.reset();
  return true;
}

std::optional<Region> create_region(RegionUse use, std::uint64_t bytes) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) / 2;
  if (bytes == 0 || bytes > kMost) return std::nullopt;
  if (use == RegionUse::program && !leaves_descriptors_for_the_program()) return std::nullopt;
  Region region{RegionId(), use, nullptr, whole_pages(bytes), UniqueFd()};
  Result<UniqueFd> fd = create_sealed_memory("outrigger-region", region.bytes, Backing::reserved);
  if (!fd) return std::nullopt;
  region.fd = std::move(fd).value();
  void* base = ::mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd.get(), 0);
  if (base == MAP_FAILED) return std::nullopt;
  region.base = static_cast<std::byte*>(base);
  if (use == RegionUse::internal && ::madvise(base, region.bytes, MADV_DONTFORK) != 0) {
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

std::optional<Region> RegionTable::take(const void* base, RegionUse use) {
  return take_first([base, use](const Region& region) { return region.base == base && region.use == use; });
}

std::optional<Region> RegionTable::take_heap() {
  return take_first([](const Region& region) { return region.use == RegionUse::heap; });
}

const Region* RegionTable::find(std::uint64_t address, std::uint64_t bytes) const {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](std::uint64_t wanted, const Region& region) { return wanted < region.address(); });
  if (after == regions_.begin()) return nullptr;
  const Region& region = *std::prev(after);
  const std::uint64_t offset = address - region.address();
  if (offset > region.bytes || bytes > region.bytes - offset) return nullptr;
  return &region;
}

}  // namespace outrigger::client
