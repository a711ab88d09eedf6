#include "client/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>

#include "client/available_memory.hpp"

namespace outrigger::client {
namespace {

std::uint64_t whole_pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// The descriptors belong to the program: regions that keep theirs take from the lower half of what it may open.
bool leaves_descriptors_for_the_program(int fd) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  return static_cast<rlim_t>(fd) < limit.rlim_cur / 2;
}

// Shared memory that is not there is not refused by the kernel: it ends processes until it is.
bool memory_is_there(std::uint64_t bytes) {
  constexpr std::uint64_t kNotWorthALook = 1ULL << 20;
  return bytes <= kNotWorthALook || bytes <= available_memory_bytes() / 4 * 3;
}

UniqueFd create_sealed_memory(RegionUse use, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create("outrigger-region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return UniqueFd();
  if (use == RegionUse::program && !leaves_descriptors_for_the_program(fd.get())) return UniqueFd();
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(fd.get(), size) != 0) return UniqueFd();
  int allocated = 0;
  do {
    allocated = ::fallocate(fd.get(), 0, 0, size);
  } while (allocated != 0 && errno == EINTR);
  if (allocated != 0) return UniqueFd();
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return UniqueFd();
  return fd;
}

}  // namespace

void Region::unmap() {
  if (base != nullptr) ::munmap(base, bytes);
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
  if (bytes == 0 || bytes > kMost || !memory_is_there(bytes)) return std::nullopt;
  Region region{RegionId(), use, nullptr, whole_pages(bytes), UniqueFd()};
  region.fd = create_sealed_memory(use, region.bytes);
  if (!region.fd.valid()) return std::nullopt;
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

std::optional<Region> RegionTable::take(const void* base, RegionUse use) {
  const auto found = std::find_if(regions_.begin(), regions_.end(), [base, use](const Region& region) {
    return region.base == base && region.use == use;
  });
  if (found == regions_.end()) return std::nullopt;
  Region region = std::move(*found);
  regions_.erase(found);
  return region;
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
