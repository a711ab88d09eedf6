#include "service/dpu/host/figures_of_dpu.hpp"

#include <span>

namespace outrigger::service {

void FiguresOfDpu::ask() {
  if (!answered() || !link_.open()) return;
  const DpuFiguresAsk question{++asked_};
  link_.send(DpuFrameKind::figures_ask, 0, std::as_bytes(std::span(&question, 1)));
}

Status FiguresOfDpu::take(const DpuFrame& frame) {
  Result<DpuFigures> told = decode_dpu_figures(frame.packet, frame.attached);
  if (!told) return Error{told.error()};
  if (told.value().number != asked_ || answered_ == asked_) return Error{"unexpected figures"};
  answered_ = asked_;
  latest_.figures = std::move(told).value();
  return Done{};
}

}  // namespace outrigger::service
