// What service processes on a DPU have counted: asked of `outriggerd dpu` when somebody watches the job, and never
// else.
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

// As they were when they were last told; before that, and where there is no DPU, nothing.
struct FiguresOfADpu {
  std::string name;  // of the DPU, for people
  DpuFigures figures;
};

class FiguresOfDpu {
 public:
  // `link` must outlive this.
  explicit FiguresOfDpu(DpuLink& link) : link_(link) {}

  void name_dpu(std::string name) { latest_.name = std::move(name); }
  // One question at a time: who asks meanwhile gets its answer.
  void ask();
  // Error: it is no answer to that.
  [[nodiscard]] Status take(const DpuFrame& frame);
  // Also where the DPU has gone: nobody waits for it.
  [[nodiscard]] bool answered() const { return answered_ == asked_ || !link_.open(); }
  [[nodiscard]] const FiguresOfADpu& latest() const { return latest_; }

 private:
  DpuLink& link_;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  FiguresOfADpu latest_;
};

}  // namespace outrigger::service
