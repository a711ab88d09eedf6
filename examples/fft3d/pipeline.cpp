#include "pipeline.hpp"

#include <algorithm>

namespace fft3d {

Pipeline::Pipeline(const ProcessGrid& grid, Memory memory, int variables, std::size_t pieces)
    : grid_(grid), scale_(1.0 / static_cast<double>(product(grid.grid()))) {
  std::size_t points = 0;
  for (const Axis axis : {kX, kY, kZ}) points = std::max(points, grid.pencil(axis).points());
  work_ = allocate(memory, points);
  add_stage(kX, Direction::kForward, grid.column(), kY, pieces);
  add_stage(kY, Direction::kForward, grid.row(), kZ, pieces);
  add_stage(kZ, Direction::kForward, MPI_COMM_NULL, kZ, pieces);
  add_stage(kZ, Direction::kInverse, grid.row(), kY, pieces);
  add_stage(kY, Direction::kInverse, grid.column(), kX, pieces);
  add_stage(kX, Direction::kInverse, MPI_COMM_NULL, kX, pieces);
  for (int variable = 0; variable < variables; ++variable) {
    variables_.push_back({allocate(memory, grid.pencil(kX).points()), allocate(memory, grid.pencil(kZ).points())});
    transits_.push_back({allocate(memory, points), allocate(memory, points)});
  }
}

void Pipeline::add_stage(Axis axis, Direction direction, MPI_Comm comm, Axis next, std::size_t pieces) {
  Stage stage{grid_.pencil(axis), nullptr, nullptr};
  stage.transform = std::make_unique<Transform>(stage.pencil, direction, work_.get(), pieces);
  if (next != axis) stage.exchange = std::make_unique<Exchange>(stage.pencil, grid_.pencil(next), comm);
  stages_.push_back(std::move(stage));
}

void Pipeline::forward(Mode mode, Trace& trace) {
  run_stages(0, kStages / 2, mode, trace);
}

void Pipeline::inverse(Mode mode, Trace& trace) {
  run_stages(kStages / 2, kStages, mode, trace);
}

void Pipeline::round_trip(Mode mode, Trace& trace) {
  run_stages(0, kStages, mode, trace);
}

void Pipeline::run_stages(int first, int last, Mode mode, Trace& trace) {
  const int variables = static_cast<int>(variables_.size());
  if (mode == Mode::kBlocking) {
    for (int variable = 0; variable < variables; ++variable) {
      for (int stage = first; stage < last; ++stage) run_stage(variable, stage, mode, trace);
    }
    return;
  }
  for (int step = 0; step < variables + last - first - 1; ++step) {
    // The most advanced variable first: its data have been in flight longest, and it feeds the network.
    for (int stage = last - 1; stage >= first; --stage) {
      const int variable = step - (stage - first);
      if (variable >= 0 && variable < variables) run_stage(variable, stage, mode, trace);
    }
  }
}

void Pipeline::run_stage(int variable, int index, Mode mode, Trace& trace) {
  const bool arrives = index > 0 && stages_[static_cast<std::size_t>(index) - 1].exchange != nullptr;
  if (arrives && (mode == Mode::kNonblocking || mode == Mode::kTesting)) {
    const double begin = trace.now();
    MPI_Wait(&transits_[static_cast<std::size_t>(variable)].request, MPI_STATUS_IGNORE);
    trace.add(Activity::kWait, variable, index, begin);
  }
  const double begin = trace.now();
  compute(variable, index, mode);
  trace.add(Activity::kCompute, variable, index, begin);
  if (stages_[static_cast<std::size_t>(index)].exchange != nullptr) send(variable, index, mode, trace);
}

void Pipeline::compute(int variable, int index, Mode mode) {
  const Transform& transform = *stages_[static_cast<std::size_t>(index)].transform;
  load(variable, index);
  for (std::size_t piece = 0; piece < transform.pieces(); ++piece) {
    test_all(mode);
    transform.run(piece);
  }
  test_all(mode);
  store(variable, index);
}

void Pipeline::test_all(Mode mode) {
  if (mode != Mode::kTesting) return;
  for (Transit& transit : transits_) {
    int done = 0;
    if (transit.request != MPI_REQUEST_NULL) MPI_Test(&transit.request, &done, MPI_STATUS_IGNORE);
  }
}

Complex* Pipeline::result_of(int variable, Axis axis) {
  Variable& owner = variables_[static_cast<std::size_t>(variable)];
  return axis == kX ? owner.field.get() : owner.spectrum.get();
}

void Pipeline::load(int variable, int index) {
  const Stage& stage = stages_[static_cast<std::size_t>(index)];
  const Exchange* const from = index > 0 ? stages_[static_cast<std::size_t>(index) - 1].exchange.get() : nullptr;
  if (from != nullptr) {
    from->unpack(transits_[static_cast<std::size_t>(variable)].receive.get(), work_.get());
  } else {
    std::copy_n(result_of(variable, stage.pencil.axis), stage.pencil.points(), work_.get());
  }
}

void Pipeline::store(int variable, int index) {
  const Stage& stage = stages_[static_cast<std::size_t>(index)];
  if (stage.exchange != nullptr) {
    stage.exchange->pack(work_.get(), transits_[static_cast<std::size_t>(variable)].send.get());
    return;
  }
  const double scale = index == kStages - 1 ? scale_ : 1.0;
  std::transform(work_.get(), work_.get() + stage.pencil.points(), result_of(variable, stage.pencil.axis),
                 [scale](const Complex& value) { return value * scale; });
}

void Pipeline::send(int variable, int index, Mode mode, Trace& trace) {
  if (mode == Mode::kCompute) return;
  const Exchange& exchange = *stages_[static_cast<std::size_t>(index)].exchange;
  Transit& transit = transits_[static_cast<std::size_t>(variable)];
  const double begin = trace.now();
  if (mode == Mode::kBlocking) {
    exchange.run(transit.send.get(), transit.receive.get());
    trace.add(Activity::kWait, variable, index, begin);
  } else {
    exchange.start(transit.send.get(), transit.receive.get(), &transit.request);
    trace.add(Activity::kPost, variable, index, begin);
  }
}

}  // namespace fft3d
