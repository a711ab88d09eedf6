#include "heap/address_space.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/available_memory.hpp"
#include "base/huge_page.hpp"

namespace outrigger::heap {
namespace {

constexpr std::uint64_t kLeastReserved = 64ULL << 30;
// Service processes reserve this for each rank, so all ranks of a large node must fit into 128 TiB.
constexpr std::uint64_t kMostReserved = 256ULL << 30;
// Enough if there are fewer addresses, as under valgrind.
constexpr std::uint64_t kLeastUseful = 8ULL << 30;
// Allocations from this size on are backed at once only if memory is plentiful.
constexpr std::uint64_t kLargeBytes = 32ULL << 20;

std::uintptr_t up(std::uintptr_t address, std::uint64_t to) {
  return (address + to - 1) / to * to;
}

std::uintptr_t down(std::uintptr_t address, std::uint64_t to) {
  return address / to * to;
}

// Pages of shared memory are accounted when touched. Under strict accounting that may fail, with a SIGBUS.
bool memory_is_never_overcommitted() {
  const UniqueFd fd(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char mode = 0;
  return fd.valid() && ::read(fd.get(), &mode, 1) == 1 && mode == '2';
}

bool limits_addresses() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

std::uint64_t bytes_to_reserve() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return std::clamp(up(4 * pages * kPageBytes, kChunkBytes), kLeastReserved, kMostReserved);
}

void* reserve(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// A container's profile may refuse it, even later. Children would then share the parent's private data.
constexpr const char* kInheritsAlways = "the system refuses madvise(MADV_DONTFORK), which keeps memory from children";

bool is_kept_from_children(void* memory, std::uint64_t bytes) {
  return ::madvise(memory, bytes, MADV_DONTFORK) == 0;
}

// To a high number, because some programs count descriptors from 3.
UniqueFd moved_up(UniqueFd fd) {
  constexpr int kFrom = 500;
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFrom));
  return high.valid() ? std::move(high) : std::move(fd);
}

}  // namespace

bool MemoryFile::is_there() const {
  struct stat status {};
  return fd >= 0 && ::fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

bool AddressSpace::open() {
  if (memory_is_never_overcommitted()) {
    why_not_ = "vm.overcommit_memory is 2";
    return false;
  }
  if (limits_addresses()) {
    why_not_ = "the address space is limited (ulimit -v)";
    return false;
  }
  std::uint64_t bytes = bytes_to_reserve();
  void* reserved = reserve(bytes + kChunkBytes);
  while (reserved == nullptr && bytes / 2 >= kLeastUseful) {
    bytes = up(bytes / 2, kChunkBytes);
    reserved = reserve(bytes + kChunkBytes);
  }
  void* table = ::mmap(nullptr, bytes / kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == nullptr || table == MAP_FAILED) {
    why_not_ = "no addresses could be reserved";
    return false;
  }
  if (!is_kept_from_children(table, kPageBytes) || ::madvise(table, kPageBytes, MADV_DOFORK) != 0) {
    why_not_ = kInheritsAlways;
    return false;
  }
  begin_ = up(reinterpret_cast<std::uintptr_t>(reserved), kChunkBytes);
  chunks_ = ChunkTable(begin_, static_cast<ChunkState*>(table));
  bytes_ = bytes;
  owner_ = ::getpid();
  if (!begin_generation(begin_)) {
    why_not_ = "no shared memory could be created (memfd_create, ulimit -f, ulimit -n)";
    return false;
  }
  why_not_ = "";
  closed_.store(false, std::memory_order_release);
  return true;
}

bool AddressSpace::begin_generation(std::uintptr_t start) {
  const std::uintptr_t end = begin_ + bytes_;
  if (start >= end) return false;
  Result<UniqueFd> fd = create_sealed_memory("outrigger-heap", end - start, Backing::on_touch);
  struct stat status {};
  if (!fd || ::fstat(fd.value().get(), &status) != 0) return false;
  backing_ = MemoryFile{moved_up(std::move(fd).value()).release(), start, status.st_dev, status.st_ino};
  top_ = start;
  generation_open_ = true;
  serial_.fetch_add(1, std::memory_order_release);
  return true;
}

void AddressSpace::close(const char* reason) {
  why_not_ = reason;
  serial_.store(0, std::memory_order_release);
  closed_.store(true, std::memory_order_release);
}

bool AddressSpace::generation(SharedHeapGeneration& filled) {
  const std::scoped_lock lock(mutex_);
  if (closed() || !backing_.is_there()) return false;
  const int fd = ::fcntl(backing_.fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return false;
  filled = {serial(), backing_.start, begin_ + bytes_ - backing_.start, fd};
  return true;
}

void* AddressSpace::extend(std::uint64_t bytes, std::uint64_t alignment) {
  const std::scoped_lock lock(mutex_);
  if (closed()) return nullptr;
  const std::uintptr_t begin = up(top_, std::max(alignment, kPageBytes));
  const std::uintptr_t end = begin_ + bytes_;
  if (begin > end || bytes > end - begin) return nullptr;
  top_ = begin + bytes;
  return pointer(begin);
}

bool AddressSpace::commit(std::uintptr_t begin, std::uint64_t bytes, Backing backing) {
  const std::scoped_lock lock(mutex_);
  // Called in another process, made without fork() handlers (clone) or sharing this one's memory (vfork).
  if (closed() || begin < backing_.start || ::getpid() != owner_) return false;
  const std::size_t first = chunks_.chunk_of(begin);
  const std::size_t last = chunks_.chunk_of(begin + bytes - 1) + 1;
  const auto map = [this](std::size_t from, std::size_t to) { return map_run(from, to); };
  if (!chunks_.each_run_below(ChunkState::mapped, first, last, map)) return false;
  if (backing == Backing::on_touch) return true;
  if (bytes >= kLargeBytes && bytes > available_memory_bytes() / 4) return true;
  return chunks_.each_run_below(ChunkState::backed, first, last, [this](std::size_t from, std::size_t to) {
    back_run(from, to);
    return true;
  });
}

bool AddressSpace::map_run(std::size_t first, std::size_t last) {
  if (!backing_.is_there()) {
    close("the program has closed its descriptor");
    return false;
  }
  void* const at = pointer(chunks_.address_of(first));
  const std::uint64_t bytes = (last - first) * kChunkBytes;
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, backing_.fd,
             backing_.offset_of(chunks_.address_of(first))) == MAP_FAILED) {
    return false;
  }
  if (!is_kept_from_children(at, bytes)) {
    static_cast<void>(::mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
    close(kInheritsAlways);
    return false;
  }
  chunks_.set(first, last, ChunkState::mapped);
  return true;
}

// Tries huge pages, then ordinary pages. If neither works, each touch allocates a page.
void AddressSpace::back_run(std::size_t first, std::size_t last) {
  const std::uint64_t bytes = (last - first) * kChunkBytes;
  bool done = false;
  if (collapses_.load(std::memory_order_relaxed)) {
    // The kernel collapses only ranges with at least one page.
    for (std::size_t chunk = first; chunk < last; ++chunk) {
      static_cast<void>(*static_cast<volatile const char*>(pointer(chunks_.address_of(chunk))));
    }
    done = ::madvise(pointer(chunks_.address_of(first)), bytes, kCollapse) == 0;
    if (!done && errno == EINVAL) collapses_.store(false, std::memory_order_relaxed);
  }
  if (!done && backing_.is_there()) {
    static_cast<void>(::fallocate(backing_.fd, FALLOC_FL_KEEP_SIZE, backing_.offset_of(chunks_.address_of(first)),
                                  static_cast<off_t>(bytes)));
  }
  chunks_.set(first, last, ChunkState::backed);
}

bool AddressSpace::decommit(std::uintptr_t begin, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Range range{begin, begin + bytes};
  if (begin < backing_.start || !generation_open_) {  // private by now: the memfd would show older content
    const auto meets = [&range](const Held& held) { return held.range.meets(range); };
    if (std::any_of(former_.begin(), former_.begin() + static_cast<std::ptrdiff_t>(former_count_), meets)) return false;
    return ::mmap(pointer(begin), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
  }
  if (::getpid() != owner_ || !backing_.is_there()) return false;
  if (::fallocate(backing_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, backing_.offset_of(begin),
                  static_cast<off_t>(bytes)) != 0) {
    return false;
  }
  chunks_.lower_to_mapped(chunks_.chunk_of(up(begin, kChunkBytes)), chunks_.chunk_of(down(range.end, kChunkBytes)));
  return true;
}

}  // namespace outrigger::heap
