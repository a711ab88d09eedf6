// Data that the keeper asks a DPU for: trace events and counters of the service processes there.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "protocol/wire/dpu_link.hpp"
#include "service/dpu/host/figures_of_dpu.hpp"
#include "service/dpu/host/trace_of_dpu.hpp"

namespace outrigger::service {

struct FetchedFromDpu {
  // `link` must outlive this.
  explicit FetchedFromDpu(DpuLink& link) : trace(link), figures(link) {}

  void name_dpu(const std::string& name) {
    trace.name_dpu(name);
    figures.name_dpu(name);
  }
  [[nodiscard]] static bool is_for(DpuFrameKind kind) {
    return kind == DpuFrameKind::trace_events || kind == DpuFrameKind::trace_told || kind == DpuFrameKind::figures;
  }
  // Handles an answer. Error: it is malformed.
  [[nodiscard]] Status take(const DpuFrame& frame, std::chrono::steady_clock::time_point now) {
    return frame.kind == DpuFrameKind::figures ? figures.take(frame) : trace.take(frame, now);
  }

  TraceOfDpu trace;
  FiguresOfDpu figures;
};

}  // namespace outrigger::service
