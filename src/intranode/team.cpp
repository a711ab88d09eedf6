#include "intranode/team.hpp"

#include <unistd.h>

#include "intranode/algorithms.hpp"

namespace outrigger::intranode {

Team::Team(ControlArea area, std::uint32_t rank, Waiter& waiter)
    : area_(std::move(area)), meeting_(area_, rank, waiter) {}

Outcome Team::open() {
  return barrier();
}

Outcome Team::barrier() {
  return barrier_flat(meeting_);
}

Outcome Team::broadcast(std::span<std::byte> buffer, std::uint32_t root) {
  return broadcast_slots(meeting_, buffer, root);
}

}  // namespace outrigger::intranode
