// What service processes on a DPU note for a trace: memory for each rank here, as a rank has it on its host
// (trace/event_memory.hpp), out of which the events go to the host's keeper when that asks. It is this process's, so
// nothing is lost with a service process; the one that takes its place goes on in it.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.hpp"
#include "protocol/wire/dpu_link.hpp"
#include "trace/drain.hpp"

namespace outrigger::service {

class KeptEvents {
 public:
  struct OfRank {
    std::uint32_t world_rank = 0;
    int fd = -1;  // of its memory, for its service process; stays this object's
  };

  // Memory for the events of a rank that the service process in that place serves. Error: there is none, or the rank
  // has some.
  [[nodiscard]] Result<OfRank> add(std::uint32_t world_rank, std::uint32_t place);
  // What the service process in that place writes to.
  [[nodiscard]] std::vector<OfRank> of_place(std::uint32_t place) const;
  // What there is goes out, as much as is good at a time, and the answer behind it.
  void answer(DpuLink& link, const DpuTraceAsk& ask);

 private:
  struct Kept {
    std::uint32_t place = 0;
    trace::Drain events;
  };
  void send_events(DpuLink& link);

  std::map<std::uint32_t, Kept> ranks_;  // by world rank
};

}  // namespace outrigger::service
