// How a service process reaches the memory of members.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cross_memory.hpp"
#include "group/member_processes.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

// Members wait for the end of a piece before they use their memory for something else.
class Touching {
 public:
  explicit Touching(ServiceHead& head) : head_(head) { head_.touches.store(1, std::memory_order_seq_cst); }
  Touching(const Touching&) = delete;
  Touching& operator=(const Touching&) = delete;
  ~Touching() {
    head_.beats.fetch_add(1, std::memory_order_relaxed);
    head_.touches.store(0, std::memory_order_release);
  }
  [[nodiscard]] bool may() const { return head_.stopped.load(std::memory_order_seq_cst) == 0; }

 private:
  ServiceHead& head_;
};

// `place`: of the member on its node. False: it has ended, or its memory cannot be reached. Another process may have
// the number of one that has ended.
[[nodiscard]] inline bool read_member(const MemberProcesses& processes, std::uint32_t place, std::uint64_t address,
                                      std::span<std::byte> to) {
  return read_cross_memory(processes.pid(place), address, to) == 0 && !processes.has_ended(place);
}
[[nodiscard]] inline bool write_member(const MemberProcesses& processes, std::uint32_t place, std::uint64_t address,
                                       std::span<const std::byte> from) {
  return !processes.has_ended(place) && write_cross_memory(processes.pid(place), address, from) == 0;
}

}  // namespace outrigger::group
