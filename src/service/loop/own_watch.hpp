// Watchdog of a service process without a keeper: it makes the checks that the keeper made (hung_services.hpp), and
// kills a hung process. Its ranks notice that.
//
// Thread rule: has a thread of its own, because the watched thread may hang. There is none while the keeper lives.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "protocol/shared/service_heartbeat.hpp"

namespace outrigger::service {

class OwnWatch {
 public:
  // `heartbeat`: of the calling thread, which is watched; `doorbell`: wakes it if it sleeps. Both must outlive this.
  void begin(const ServiceHeartbeat& heartbeat, int doorbell);

 private:
  void watch(const std::stop_token& stop, const ServiceHeartbeat& heartbeat, int doorbell);

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last member: its thread ends before what it uses
};

}  // namespace outrigger::service
