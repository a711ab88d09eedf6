// fork(): what address_space.hpp promises of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "heap/address_space.hpp"

namespace outrigger::heap {
namespace {

// Beyond it the program's memory stays private: each such fork costs it page faults.
constexpr std::uint64_t kMostForks = 32;

bool meet(const Range& one, const Range& other) {
  return one.begin < other.end && other.begin < one.end;
}

Range both(const Range& one, const Range& other) {
  return {std::min(one.begin, other.begin), std::max(one.end, other.end)};
}

Range common(const Range& one, const Range& other) {
  return {std::max(one.begin, other.begin), std::min(one.end, other.end)};
}

Range whole_pages(std::uintptr_t begin, std::uint64_t bytes) {
  return {begin / kPageBytes * kPageBytes, (begin + bytes + kPageBytes - 1) / kPageBytes * kPageBytes};
}

}  // namespace

template <class Visit>
void AddressSpace::each_mapped(const Range& range, const Visit& visit) {
  if (range.empty()) return;
  const auto mapped = [](std::uint8_t state) { return state >= kMapped; };
  each_run(chunk_of(range.begin), chunk_of(range.end - 1) + 1, mapped, [&](std::size_t first, std::size_t last) {
    visit(common(range, Range{address_of(first), address_of(last)}));
    return true;
  });
}

// Keeps asked_ sorted and without overlaps. Where there is no more room, the last two become one.
void AddressSpace::ask(const Range& range) {
  Range wanted = range;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < asked_count_; ++i) {
    if (meet(asked_[i], wanted)) {
      wanted = both(asked_[i], wanted);
    } else {
      asked_[kept++] = asked_[i];
    }
  }
  asked_count_ = kept;
  if (asked_count_ == kMostHeld) {
    wanted = both(wanted, asked_[asked_count_ - 1]);
    --asked_count_;
    return ask(wanted);
  }
  std::size_t place = asked_count_;
  while (place > 0 && wanted.begin < asked_[place - 1].begin) {
    asked_[place] = asked_[place - 1];
    --place;
  }
  asked_[place] = wanted;
  ++asked_count_;
}

void AddressSpace::hold_at_fork(std::uintptr_t begin, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Range wanted = whole_pages(begin, bytes);
  for (std::size_t i = 0; i < former_count_; ++i) {
    if (meet(former_[i].range, wanted)) former_[i].again = true;
  }
  const Range range = generation_open_ ? common(wanted, current()) : Range{};
  if (!range.empty()) ask(range);
}

// Without the memfd there is no private mapping of it. Its runs of chunks one by one, for the copies.
void AddressSpace::ask_for_everything() {
  asked_count_ = 0;
  each_mapped(current(), [this](const Range& range) { ask(range); });
}

void AddressSpace::make_private(const Range& range, const MemoryFile& backing) {
  each_mapped(range, [&backing](const Range& part) {
    // If it fails the child has no memory there, and the parent keeps what it has.
    static_cast<void>(::mmap(pointer(part.begin), part.bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, backing.fd, backing.offset_of(part.begin)));
  });
}

// What earlier forks held and nobody works on any more.
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
  if (former_count_ == former_.size()) return;  // shared, and not in the child
  Held& held = former_[former_count_++];
  held = Held{range, backing_, false, nullptr};
  held.backing.fd = backing_.is_there() ? ::fcntl(backing_.fd, F_DUPFD_CLOEXEC, 0) : -1;
}

void AddressSpace::end_generation() {
  if (!backing_.is_there()) ask_for_everything();
  std::uintptr_t done = backing_.start;
  for (std::size_t i = 0; i < asked_count_; ++i) {
    make_private(Range{done, asked_[i].begin}, backing_);
    keep(asked_[i]);
    done = asked_[i].end;
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
    each_mapped(held.range, [&held](const Range& part) {
      std::memcpy(static_cast<std::byte*>(held.copy) + (part.begin - held.range.begin), pointer(part.begin),
                  part.bytes());
    });
  }
}

void AddressSpace::before_fork() {
  mutex_.lock();
  keep_or_end_former();
  generation_ended_ = generation_open_ && top_ > backing_.start;
  if (generation_ended_) end_generation();
  asked_count_ = 0;
  copy_former();
}

void AddressSpace::after_fork_in_parent() {
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
  for (std::size_t i = 0; i < former_count_; ++i) {
    const Held& held = former_[i];
    if (held.copy != nullptr) {
      // By its number: libraries that replace mremap() may drop its last argument, as UCX's does.
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
