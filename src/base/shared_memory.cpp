#include "base/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/available_memory.hpp"
#include "base/refusal.hpp"

namespace outrigger {
namespace {

Error system_error(const std::string& what) {
  return Error{what + ": " + std::strerror(errno)};
}

// The limit also holds for memory files; beyond it the kernel sends SIGXFSZ, which ends the process.
Status check_file_size_limit(std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return Done{};
  return Error{"the limit on file sizes (ulimit -f) is below the " + std::to_string(bytes) +
               " bytes of shared memory that are needed; raise it"};
}

// The kernel grants shared memory that it does not have, and later kills processes.
Status check_memory_is_there(std::uint64_t bytes) {
  constexpr std::uint64_t kNotWorthALook = 1ULL << 20;
  if (bytes <= kNotWorthALook || bytes <= available_memory_bytes() / 4 * 3) return Done{};
  return Error{"not enough memory for " + std::to_string(bytes) + " bytes of shared memory"};
}

// An address for a mapping of `bytes` that suits huge pages; nullptr: any. Only a hint, as another mapping may take it
// meanwhile.
void* address_for(std::uint64_t bytes) {
  constexpr std::uint64_t kHugePage = 2ULL << 20;
  if (bytes < kHugePage) return nullptr;
  void* place = ::mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  ::munmap(place, bytes + kHugePage);
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(place) + kHugePage - 1) / kHugePage * kHugePage);
}

Status reserve(int fd, std::uint64_t bytes) {
  int result = 0;
  do {
    result = ::fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && is_refusal(errno)) return Done{};  // pages are allocated at first touch: there was room for them
  if (result != 0) return system_error("cannot reserve " + std::to_string(bytes) + " bytes of shared memory");
  return Done{};
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (base_ != nullptr) ::munmap(base_, bytes_);
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

Result<Mapping> Mapping::map(int fd, std::uint64_t bytes) {
  if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() / 2) return Error{"mapping of an impossible size"};
  void* base = ::mmap(address_for(bytes), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return system_error("cannot map " + std::to_string(bytes) + " bytes of shared memory");
  (void)::madvise(base, bytes, MADV_DONTFORK);
  Mapping mapping;
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.bytes_ = bytes;
  return mapping;
}

Result<Mapping> Mapping::anonymous(std::uint64_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return system_error("cannot map " + std::to_string(bytes) + " bytes of memory");
  (void)::madvise(base, bytes, MADV_DONTFORK);
  Mapping mapping;
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.bytes_ = bytes;
  return mapping;
}

Result<UniqueFd> create_sealed_memory(const std::string& name, std::uint64_t bytes, Backing backing) {
  if (Status status = check_file_size_limit(bytes); !status) return Error{status.error()};
  if (backing == Backing::reserved) {
    if (Status status = check_memory_is_there(bytes); !status) return Error{status.error()};
  }
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("cannot create shared memory (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return system_error("cannot give shared memory " + std::to_string(bytes) + " bytes");
  }
  if (backing == Backing::reserved) {
    if (Status status = reserve(fd.get(), bytes); !status) return Error{status.error()};
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal shared memory");
  }
  return fd;
}

Status check_sealed_memory(int fd, std::uint64_t bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Error{"the descriptor is not shared memory that can be sealed (a memfd)"};
  if ((seals & F_SEAL_SHRINK) == 0) return Error{"the shared memory is not sealed against shrinking"};
  if ((seals & F_SEAL_WRITE) != 0) return Error{"the shared memory is sealed against writing"};
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error("cannot look at the shared memory (fstat)");
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) < bytes) {
    return Error{"the shared memory has " + std::to_string(status.st_size) + " bytes, not the " +
                 std::to_string(bytes) + " that were announced"};
  }
  return Done{};
}

Result<UniqueFd> share_bytes(const std::string& name, std::span<const std::byte> bytes) {
  Result<UniqueFd> fd = create_sealed_memory(name, bytes.size(), Backing::reserved);
  if (!fd) return fd;
  Result<Mapping> mapping = Mapping::map(fd.value().get(), bytes.size());
  if (!mapping) return Error{mapping.error()};
  std::memcpy(mapping.value().base(), bytes.data(), bytes.size());
  return fd;
}

Result<std::vector<std::byte>> read_shared_bytes(int fd, std::uint64_t bytes, std::uint64_t most) {
  if (bytes > most) return Error{std::to_string(bytes) + " bytes of shared memory are more than can be"};
  if (Status sealed = check_sealed_memory(fd, bytes); !sealed) return Error{sealed.error()};
  Result<Mapping> mapping = Mapping::map(fd, bytes);
  if (!mapping) return Error{mapping.error()};
  const std::byte* base = mapping.value().base();
  return std::vector<std::byte>(base, base + bytes);
}

}  // namespace outrigger
