#include "heap/arena.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/no_cancellation.hpp"
#include "heap/address_space.hpp"
#include "heap/jemalloc.hpp"
#include "protocol/options/reach.hpp"
#include "protocol/options/settings.hpp"

// Few arenas of its own, since jemalloc serves only metadata. Freed memory is kept for ten seconds for the next
// allocation, because new shared memory is expensive.
extern "C" {
extern const char* outrigger_je_malloc_conf;
__attribute__((visibility("hidden"))) const char* outrigger_je_malloc_conf =
    "narenas:1,tcache:false,background_thread:false,dirty_decay_ms:10000,muzzy_decay_ms:0";
}

namespace outrigger::heap {
namespace {

constinit AddressSpace space;

struct Counts {
  std::atomic<std::uint64_t> allocations{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> refused{0};
};
constinit Counts counted;
constinit std::atomic<bool> started{false};

// The arena for new allocations, and its generation. An arena of an earlier generation has private memory by now: it
// only serves its existing allocations until they are freed.
constinit std::mutex arena_mutex;  // not touched in children: their heap is closed
constinit std::atomic<std::uint64_t> arena_serial{0};
constinit std::atomic<unsigned> arena_number{0};

void* take_addresses(extent_hooks_t* /*hooks*/, void* wanted, std::size_t bytes, std::size_t alignment, bool* zeroed,
                     bool* committed, unsigned /*arena*/) {
  if (wanted != nullptr) return nullptr;
  void* begin = space.extend(bytes, alignment);
  // jemalloc requests committed addresses when it could not commit any it had.
  if (begin != nullptr && *committed &&
      !space.commit(reinterpret_cast<std::uintptr_t>(begin), bytes, Backing::reserved))
    return nullptr;
  *zeroed = true;
  return begin;
}

// jemalloc's hooks return true on failure.
bool keep_addresses(extent_hooks_t*, void*, std::size_t, bool, unsigned) {
  return true;
}

bool commit(extent_hooks_t*, void* extent, std::size_t, std::size_t offset, std::size_t bytes, unsigned) {
  return !space.commit(reinterpret_cast<std::uintptr_t>(extent) + offset, bytes, Backing::reserved);
}

bool decommit(extent_hooks_t*, void* extent, std::size_t, std::size_t offset, std::size_t bytes, unsigned) {
  return !space.decommit(reinterpret_cast<std::uintptr_t>(extent) + offset, bytes);
}

bool split(extent_hooks_t*, void*, std::size_t, std::size_t, std::size_t, bool, unsigned) {
  return false;
}

bool merge(extent_hooks_t*, void*, std::size_t, void*, std::size_t, bool, unsigned) {
  return false;
}

extent_hooks_t hooks = {take_addresses, keep_addresses, nullptr, commit, decommit, nullptr, nullptr, split, merge};

void retire_arena(unsigned arena) {
  if (arena == 0) return;
  std::array<char, 64> name{};
  ssize_t at_once = 0;
  std::snprintf(name.data(), name.size(), "arena.%u.dirty_decay_ms", arena);
  static_cast<void>(mallctl(name.data(), nullptr, nullptr, &at_once, sizeof at_once));
}

// The arena's metadata stay out of its extents.
bool make_arena(unsigned& arena) {
  arena_config_t config{&hooks, false};
  std::size_t bytes = sizeof arena;
  return mallctl("experimental.arenas_create_ext", &arena, &bytes, &config, sizeof config) == 0;
}

// 0 if there is none.
unsigned current_arena() {
  const std::uint64_t serial = space.serial();
  if (serial == 0) return 0;
  if (arena_serial.load(std::memory_order_acquire) == serial) return arena_number.load(std::memory_order_relaxed);
  const std::scoped_lock lock(arena_mutex);
  if (arena_serial.load(std::memory_order_relaxed) == serial) return arena_number.load(std::memory_order_relaxed);
  unsigned arena = 0;
  if (!make_arena(arena)) return 0;
  retire_arena(arena_number.exchange(arena));
  arena_serial.store(serial, std::memory_order_release);
  return arena;
}

int flags_of(unsigned arena, std::size_t alignment, bool zeroed) {
  const int aligned = alignment > 1 ? MALLOCX_ALIGN(alignment) : 0;
  return MALLOCX_ARENA(static_cast<int>(arena)) | MALLOCX_TCACHE_NONE | aligned | (zeroed ? MALLOCX_ZERO : 0);
}

bool switched_on() {
  const char* value = std::getenv(setting::kSharedHeap);
  return value != nullptr && parse_switch(value) == true;
}

// jemalloc registers its fork() handlers in a constructor without priority. Ours, registered earlier, run after them in
// the prepare phase: a thread that waits for our lock may hold jemalloc's.
__attribute__((constructor(101))) void start() {
  if (!switched_on()) return;
  ::pthread_atfork([] { space.before_fork(); }, [] { space.after_fork_in_parent(); },
                   [] { space.after_fork_in_child(); });
  static_cast<void>(space.open());
  started.store(true);
}

std::uint64_t serial() {
  return space.serial();
}

bool generation(SharedHeapGeneration* filled) {
  return space.generation(*filled);
}

SharedHeapCounts counts() {
  return {counted.allocations.load(), counted.bytes.load(), counted.refused.load(), space.forks()};
}

const char* why_not() {
  return space.why_not();
}

void hold_at_fork(std::uintptr_t begin, std::uint64_t bytes) {
  space.hold_at_fork(begin, bytes);
}

}  // namespace

bool in_heap(const void* memory) {
  return space.holds(memory);
}

void* allocate(std::size_t bytes, std::size_t alignment, bool zeroed) {
  const NoCancellation whole;
  const unsigned arena = current_arena();
  void* memory = arena == 0 ? nullptr : mallocx(bytes, flags_of(arena, alignment, zeroed));
  if (memory == nullptr) {
    // allocations before the start, while libraries are loaded, do not count
    if (started.load(std::memory_order_relaxed)) counted.refused.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  counted.allocations.fetch_add(1, std::memory_order_relaxed);
  counted.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return memory;
}

void release(void* memory) {
  const NoCancellation whole;
  dallocx(memory, MALLOCX_TCACHE_NONE);
}

void* resize(void* memory, std::size_t bytes) {
  const NoCancellation whole;
  const unsigned arena = current_arena();
  if (arena == 0) return nullptr;
  return rallocx(memory, bytes, flags_of(arena, 0, false));
}

std::size_t usable_bytes(const void* memory) {
  return sallocx(memory, 0);
}

const SharedHeap* shared_heap() {
  static constexpr SharedHeap kHeap{kSharedHeapVersion, serial, generation, counts, why_not, hold_at_fork};
  return switched_on() ? &kHeap : nullptr;
}

}  // namespace outrigger::heap
