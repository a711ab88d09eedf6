#include "trace/drain.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace outrigger::trace {
namespace {

std::uint8_t kind_at(const Event& place) {
  return std::atomic_ref(const_cast<std::uint8_t&>(place.kind)).load(std::memory_order_acquire);
}

}  // namespace

// One thread writes events in order, so only the last place can be incomplete. An earlier empty place is of a process
// that was killed while writing it.
std::uint64_t Drain::ready() const {
  const std::uint64_t count = std::min(memory_.header().service_events.load(std::memory_order_acquire), kEvents);
  if (count <= taken_) return taken_;
  return kind_at(memory_.service_events()[count - 1]) == 0 ? count - 1 : count;
}

std::vector<Event> Drain::next(std::size_t most) {
  std::vector<Event> events;
  const std::uint64_t end = ready();
  for (; taken_ < end && events.size() < most; ++taken_) {
    const Event& place = memory_.service_events()[taken_];
    const std::uint8_t kind = kind_at(place);
    if (!of_service(kind)) continue;
    Event event;
    std::memcpy(&event, &place, sizeof event);
    event.kind = kind;
    events.push_back(event);
  }
  release_pages();
  return events;
}

std::uint64_t Drain::take_dropped() {
  const std::uint64_t count = memory_.header().service_events.load(std::memory_order_acquire);
  const std::uint64_t all = count - std::min(count, kEvents);
  return all - std::exchange(dropped_, all);
}

void Drain::release_pages() {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t end = taken_ * sizeof(Event) / page * page;
  if (end <= released_) return;
  auto* const first = reinterpret_cast<std::byte*>(memory_.service_events()) + released_;
  if (::madvise(first, end - released_, MADV_REMOVE) == 0) released_ = end;  // otherwise they stay until the end
}

}  // namespace outrigger::trace
