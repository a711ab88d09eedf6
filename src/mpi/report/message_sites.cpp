#include "mpi/report/message_sites.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/futex_lock.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::size_t kMostCallers = 4096;
constexpr std::uint32_t kMostWays = 64;  // of a caller
constexpr unsigned kCallersHereLog2 = 6;

// A return address on the stack, so many bytes from the frame of the call.
struct FarSlot {
  std::ptrdiff_t offset = 0;
  std::uintptr_t address = 0;
};

struct KnownWay {
  CallPlaces places;
  std::vector<FarSlot> slots;
  const KnownWay* next = nullptr;
};

// Calling code. Lives until the end of the process.
struct MessageCaller {
  const void* address = nullptr;
  CallPlaces places;                  // of this code alone
  std::atomic<bool> is_plain = true;  // there is nothing more to find
  std::atomic<const KnownWay*> ways = nullptr;
  std::uint32_t way_count = 0;  // under the lock
};

constinit FutexLock callers_mutex;
[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<MessageCaller*, 1U << kCallersHereLog2>
    callers_here{};

// It reads other frames.
[[gnu::no_sanitize_address]] bool goes_this_way(const KnownWay& way, const char* depth) {
  if (!is_on_this_stack(depth, depth + way.slots.back().offset)) return false;
  for (auto slot = way.slots.rbegin(); slot != way.slots.rend(); ++slot) {
    if (*reinterpret_cast<const std::uintptr_t*>(depth + slot->offset) != slot->address) return false;
  }
  return true;
}

MessageCaller* make_caller(const void* address) {
  const FoundCode code = code_at(address);
  auto* made = new MessageCaller;
  made->address = address;
  if (code.owner != CodeOwner::mpi) made->places.site = code_place_of(code);
  made->is_plain.store(code.owner == CodeOwner::program, std::memory_order_relaxed);
  return made;
}

// nullptr: too many.
[[gnu::noinline]] MessageCaller* find_caller(const void* address) {
  static auto* all = new std::map<const void*, MessageCaller*>;
  {
    const std::scoped_lock lock(callers_mutex);
    const auto found = all->find(address);
    if (found != all->end()) return found->second;
    if (all->size() >= kMostCallers) return nullptr;
  }
  // The loader has locks of its own, and runs code of the program under them.
  MessageCaller* const made = make_caller(address);
  const std::scoped_lock lock(callers_mutex);
  const auto [place, is_new] = all->try_emplace(address, made);
  if (!is_new) delete made;
  return place->second;
}

void keep_way(MessageCaller& caller, const CallWay& way, const char* depth) {
  auto* made = new KnownWay{way.places, {}, nullptr};
  for (std::uint32_t i = 0; i < way.slot_count; ++i) {
    made->slots.push_back({reinterpret_cast<const char*>(way.slots[i].place) - depth, way.slots[i].address});
  }
  const std::scoped_lock lock(callers_mutex);
  made->next = caller.ways.load(std::memory_order_relaxed);
  caller.ways.store(made, std::memory_order_release);
  if (++caller.way_count >= kMostWays) caller.is_plain.store(true, std::memory_order_relaxed);
}

[[gnu::noinline]] CallPlaces follow_way(MessageCaller& caller, const CallOrigin& origin) {
  const CallWay way = way_of(origin, code_at(origin.caller));
  if (way.repeats && way.slot_count != 0) {
    keep_way(caller, way, static_cast<const char*>(origin.depth));
  } else {
    caller.is_plain.store(true, std::memory_order_relaxed);
  }
  return way.places;
}

}  // namespace

CallPlaces message_places(const CallOrigin& origin) {
  const auto address = reinterpret_cast<std::uintptr_t>(origin.caller);
  MessageCaller*& known = callers_here[(address * 0x9E3779B97F4A7C15ULL) >> (64U - kCallersHereLog2)];
  if (known == nullptr || known->address != origin.caller) [[unlikely]] {
    MessageCaller* const found = find_caller(origin.caller);
    if (found == nullptr) return {};
    known = found;
  }
  for (const KnownWay* way = known->ways.load(std::memory_order_acquire); way != nullptr; way = way->next) {
    if (goes_this_way(*way, static_cast<const char*>(origin.depth))) return way->places;
  }
  if (known->is_plain.load(std::memory_order_relaxed)) return known->places;
  return follow_way(*known, origin);
}

}  // namespace outrigger::mpi
