// What service processes on a DPU have counted (protocol/shared/service_pulse.hpp), those that have died included: the
// host's keeper asks for it when somebody watches the job.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/shared/service_pulse.hpp"
#include "protocol/wire/dpu_figures.hpp"
#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

class KeptFigures {
 public:
  // Of one whose pages go with it, as another one takes its place; null: it has shown nothing.
  void keep(const ServicePages* pages);
  // Sends all of these together with those that there are; null ones have shown nothing.
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
