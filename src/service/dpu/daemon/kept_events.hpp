// Trace events of service processes on a DPU. Each rank has memory here in the same form as on its host
// (trace/event_memory.hpp); the host's keeper fetches the events. The memory belongs to this process, so a replaced
// service process loses nothing.
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
    int fd = -1;  // the rank's event memory; owned by KeptEvents
  };

  // Makes event memory for a rank that the service process in `place` serves. Error: no memory, or the rank has some.
  [[nodiscard]] Result<OfRank> add(std::uint32_t world_rank, std::uint32_t place);
  // The memory that the service process in `place` writes to.
  [[nodiscard]] std::vector<OfRank> of_place(std::uint32_t place) const;
  // Sends a bounded number of events, then the answer.
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
