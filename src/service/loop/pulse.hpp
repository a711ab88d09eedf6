// By what its keeper sees that this process gets on (protocol/service_pulse.hpp).
//
// Thread rule: one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "protocol/service_pulse.hpp"

namespace outrigger::service {

class Pulse {
 public:
  // From now on it is seen there. Until then nobody looks.
  [[nodiscard]] Status show_in(const UniqueFd& fd) {
    Result<Mapping> mapping = Mapping::map(fd.get(), kPulseBytes);
    if (!mapping) return Error{mapping.error()};
    page_ = std::move(mapping).value();
    shown_ = reinterpret_cast<ServicePulse*>(page_.base());
    return Done{};
  }
  // Once a turn.
  void beat() {
    if (shown_ != nullptr) shown_->turns.store(++turns_, std::memory_order_relaxed);
  }
  // An operation.
  void taken(const OperationId& id, Collective collective) {
    if (shown_ != nullptr) shown_->show(id, collective);
  }

 private:
  Mapping page_;
  ServicePulse* shown_ = nullptr;
  std::uint64_t turns_ = 0;
};

}  // namespace outrigger::service
