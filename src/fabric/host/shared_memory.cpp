#include "fabric/host/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace outrigger::fabric {
namespace {

Error system_error(const std::string& what) {
  return Error{what + ": " + std::strerror(errno)};
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
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return system_error("cannot map " + std::to_string(bytes) + " bytes of shared memory");
  (void)::madvise(base, bytes, MADV_DONTFORK);
  Mapping mapping;
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.bytes_ = bytes;
  return mapping;
}

Result<UniqueFd> create_sealed_memory(const std::string& name, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("cannot create shared memory (memfd_create)");
  // The limit holds for memory files too, and beyond it the kernel sends SIGXFSZ, which would end the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    return Error{"the limit on file sizes (ulimit -f) is below the " + std::to_string(bytes) +
                 " bytes of shared memory that are needed; raise it"};
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return system_error("cannot give shared memory " + std::to_string(bytes) + " bytes");
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

}  // namespace outrigger::fabric
