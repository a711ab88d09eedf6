// Sees to it that a service process without a keeper does not hang for ever, and its job with it: what its keeper would
// have noticed (hung_services.hpp) it notices itself. Then it ends, which its ranks see.
//
// Thread rule: has a thread of its own, as what it watches does not get on. There is none while the keeper lives.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "protocol/shared/service_pulse.hpp"

namespace outrigger::service {

class OwnWatch {
 public:
  // `pulse`: shown by the calling thread, which is watched; `doorbell`: wakes it if it sleeps. Both outlive this.
  void begin(const ServicePulse& pulse, int doorbell);

 private:
  void watch(const std::stop_token& stop, const ServicePulse& pulse, int doorbell);

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // the last one: it ends before what it uses
};

}  // namespace outrigger::service
