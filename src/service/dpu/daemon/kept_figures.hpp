// Counters of service processes on a DPU (protocol/shared/service_heartbeat.hpp), including those that have died. The
// host's keeper asks for them when a user watches the job.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/shared/service_heartbeat.hpp"
#include "protocol/wire/dpu_figures.hpp"
#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

class KeptFigures {
 public:
  // Keeps the counters of a service process that is being replaced. nullptr: it has published none.
  void keep(const ServicePages* pages);
  // Sends the sum of these counters and those of `shown`; nullptr entries have published none.
  void answer(DpuLink& link, const DpuFiguresAsk& ask, std::span<const ServicePages* const> shown) const;

 private:
  struct Sums {
    void add(const ServicePages& pages);
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::vector<DpuLinkFigures> links;  // by place; empty: none yet
  };

  Sums of_the_dead_;
};

}  // namespace outrigger::service
