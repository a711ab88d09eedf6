// Counters of the service processes on a DPU. `outriggerd dpu` is asked for them only while a user watches the job.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "protocol/wire/dpu_figures.hpp"
#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

// The last answer; empty before the first one and without a DPU.
struct FiguresOfADpu {
  std::string name;  // the DPU's name, for people
  DpuFigures figures;
};

class FiguresOfDpu {
 public:
  // `link` must outlive this.
  explicit FiguresOfDpu(DpuLink& link) : link_(link) {}

  void name_dpu(std::string name) { latest_.name = std::move(name); }
  // One question at a time: callers in between get the same answer.
  void ask();
  // Error: it is not a valid answer.
  [[nodiscard]] Status take(const DpuFrame& frame);
  // True also when the DPU is gone, so that callers do not wait.
  [[nodiscard]] bool answered() const { return answered_ == asked_ || !link_.open(); }
  [[nodiscard]] const FiguresOfADpu& latest() const { return latest_; }

 private:
  DpuLink& link_;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  FiguresOfADpu latest_;
};

}  // namespace outrigger::service
