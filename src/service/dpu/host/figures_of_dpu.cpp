#include "service/dpu/host/figures_of_dpu.hpp"

#include <span>

namespace outrigger::service {

void FiguresOfDpu::ask() {
  if (!answered() || !link_.open()) return;
  link_.send(DpuFrameKind::figures_ask, 0, encoded(DpuFiguresAsk{++asked_}));
}

Status FiguresOfDpu::take(const DpuFrame& frame) {
  std::optional<DpuFigures> told = decoded<DpuFigures>(frame.attached);
  if (!told) return Error{"counters that cannot be"};
  if (told->number != asked_ || answered_ == asked_) return Error{"unexpected figures"};
  answered_ = asked_;
  latest_.figures = std::move(*told);
  return Done{};
}

}  // namespace outrigger::service
