// Heartbeat: the keeper reads it to detect a hung service process (protocol/shared/service_heartbeat.hpp).
//
// Thread rule: one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "protocol/shared/service_heartbeat.hpp"

namespace outrigger::service {

class Heartbeat {
 public:
  // Publishes it in this memory from now on.
  [[nodiscard]] Status show_in(const UniqueFd& fd) {
    Result<Mapping> mapping = Mapping::map(fd.get(), kServicePagesBytes);
    if (!mapping) return Error{mapping.error()};
    mapping_ = std::move(mapping).value();
    auto* pages = reinterpret_cast<ServicePages*>(mapping_.base());
    shown_ = &pages->heartbeat;
    links_ = pages->links;
    host_memory_ = &pages->host_memory;
    sleep(false);  // the predecessor may have left it set
    return Done{};
  }
  // nullptr if it is not published
  [[nodiscard]] const ServiceHeartbeat* shown() const { return shown_; }
  // By node (link_place()); empty if not published.
  [[nodiscard]] std::span<LinkCounts> links() const { return links_; }
  // nullptr if it is not published
  [[nodiscard]] LinkCounts* host_memory() const { return host_memory_; }
  // While this object exists, the process waits for a wake-up. Any other wait counts as a hang.
  class Asleep {
   public:
    explicit Asleep(Heartbeat& heartbeat) : heartbeat_(heartbeat) { heartbeat_.sleep(true); }
    ~Asleep() { heartbeat_.sleep(false); }
    Asleep(const Asleep&) = delete;
    Asleep& operator=(const Asleep&) = delete;

   private:
    Heartbeat& heartbeat_;
  };
  // Once a turn.
  void beat() {
    if (shown_ != nullptr) shown_->turns.store(++turns_, std::memory_order_relaxed);
  }
  // On a DPU, each turn: true if a message of the host's keeper arrived recently.
  [[nodiscard]] bool may_work() const {
    const std::int64_t until_ns = shown_ == nullptr ? 0 : shown_->may_work_until_ns.load(std::memory_order_relaxed);
    return until_ns == 0 || std::chrono::steady_clock::now().time_since_epoch() < std::chrono::nanoseconds(until_ns);
  }
  // An operation was taken.
  void taken(const OperationId& id, Collective collective) {
    if (shown_ != nullptr) shown_->show(id, collective);
  }

 private:
  void sleep(bool asleep) {
    if (shown_ != nullptr) shown_->asleep.store(asleep ? 1 : 0, std::memory_order_relaxed);
  }

  Mapping mapping_;
  ServiceHeartbeat* shown_ = nullptr;
  std::span<LinkCounts> links_;
  LinkCounts* host_memory_ = nullptr;
  std::uint64_t turns_ = 0;
};

}  // namespace outrigger::service
