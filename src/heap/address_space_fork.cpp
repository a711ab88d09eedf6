// The fork() handlers described in address_space.hpp.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/no_cancellation.hpp"
#include "heap/address_space.hpp"

namespace outrigger::heap {
namespace {

// After so many forks new memory stays private: each such fork costs the program page faults.
constexpr std::uint64_t kMostForks = 32;

Range whole_pages(std::uintptr_t begin, std::uint64_t bytes) {
  return {begin / kPageBytes * kPageBytes, (begin + bytes + kPageBytes - 1) / kPageBytes * kPageBytes};
}

}  // namespace

void AddressSpace::hold_at_fork(std::uintptr_t begin, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Range wanted = whole_pages(begin, bytes);
  for (std::size_t i = 0; i < former_count_; ++i) {
    if (former_[i].range.meets(wanted)) former_[i].again = true;
  }
  const Range range = generation_open_ ? common(wanted, current()) : Range{};
  if (!range.empty()) asked_.add(range);
}

// Without the memfd a private mapping is impossible: holds every run of chunks, for the copies.
void AddressSpace::hold_everything() {
  asked_.clear();
  chunks_.each_mapped(current(), [this](const Range& range) { asked_.add(range); });
}

void AddressSpace::make_private(const Range& range, const MemoryFile& backing) {
  chunks_.each_mapped(range, [&backing](const Range& part) {
    // On failure the child has no memory there, and the parent keeps its own.
    static_cast<void>(::mmap(pointer(part.begin), part.bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, backing.fd, backing.offset_of(part.begin)));
  });
}

// Ranges held by earlier forks that are not used any more.
void AddressSpace::keep_or_end_former() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < former_count_; ++i) {
    Held& held = former_[i];
    if (held.again || !held.backing.is_there()) {
      held.again = false;
      former_[kept++] = held;
      continue;
    }
    make_private(held.range, held.backing);
    ::close(held.backing.fd);
  }
  former_count_ = kept;
}

void AddressSpace::keep(const Range& range) {
  if (former_count_ == former_.size()) return;  // shared, and missing in the child
  Held& held = former_[former_count_++];
  held = Held{range, backing_, false, nullptr};
  held.backing.fd = backing_.is_there() ? ::fcntl(backing_.fd, F_DUPFD_CLOEXEC, 0) : -1;
}

void AddressSpace::end_generation() {
  if (!backing_.is_there()) hold_everything();
  std::uintptr_t done = backing_.start;
  for (const Range& held : asked_.ranges()) {
    make_private(Range{done, held.begin}, backing_);
    keep(held);
    done = held.end;
  }
  make_private(Range{done, top_}, backing_);
  if (backing_.is_there()) ::close(backing_.fd);
  backing_.fd = -1;
  generation_open_ = false;
}

void AddressSpace::copy_former() {
  for (std::size_t i = 0; i < former_count_; ++i) {
    Held& held = former_[i];
    void* copy =
        ::mmap(nullptr, held.range.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    held.copy = copy == MAP_FAILED ? nullptr : copy;
    if (held.copy == nullptr) continue;
    chunks_.each_mapped(held.range, [&held](const Range& part) {
      std::memcpy(static_cast<std::byte*>(held.copy) + (part.begin - held.range.begin), pointer(part.begin),
                  part.bytes());
    });
  }
}

void AddressSpace::before_fork() {
  const NoCancellation whole;
  mutex_.lock();
  keep_or_end_former();
  generation_ended_ = generation_open_ && top_ > backing_.start;
  if (generation_ended_) end_generation();
  asked_.clear();
  copy_former();
}

void AddressSpace::after_fork_in_parent() {
  const NoCancellation whole;
  for (std::size_t i = 0; i < former_count_; ++i) {
    if (former_[i].copy != nullptr) ::munmap(former_[i].copy, former_[i].range.bytes());
    former_[i].copy = nullptr;
  }
  if (std::exchange(generation_ended_, false)) {
    const bool enough = forks_.fetch_add(1) + 1 >= kMostForks;
    const std::uintptr_t start = (top_ + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
    if (enough || closed() || !begin_generation(start)) close(enough ? "the program forks often" : "no memory");
  }
  mutex_.unlock();
}

void AddressSpace::after_fork_in_child() {
  const NoCancellation whole;
  for (std::size_t i = 0; i < former_count_; ++i) {
    const Held& held = former_[i];
    if (held.copy != nullptr) {
      // By number: replacements of mremap(), as in UCX, may drop the last argument.
      static_cast<void>(::syscall(SYS_mremap, held.copy, held.range.bytes(), held.range.bytes(),
                                  MREMAP_MAYMOVE | MREMAP_FIXED, held.range.begin));
    }
    if (held.backing.is_there()) ::close(held.backing.fd);
  }
  former_count_ = 0;
  if (generation_open_ && backing_.is_there()) ::close(backing_.fd);
  backing_.fd = -1;
  generation_open_ = false;
  generation_ended_ = false;
  if (bytes_ != 0) close("the process was forked");
  mutex_.unlock();
}

}  // namespace outrigger::heap
