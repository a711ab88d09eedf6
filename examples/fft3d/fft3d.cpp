// A three-dimensional FFT of several variables on any number of ranks: pencils over a two-dimensional grid of
// processes, FFTW along the lines, MPI_Ialltoallv of one variable while the others compute. An ordinary MPI program.
#include <mpi.h>

#include <cstdio>

#include "check.hpp"
#include "fail.hpp"
#include "options.hpp"
#include "report.hpp"

namespace fft3d {
namespace {

void require(const Errors& errors, const char* what) {
  const auto good = [](double error) { return error <= kTolerance; };  // false for a NaN
  if (good(errors.spectrum) && good(errors.field)) return;
  char message[160];
  std::snprintf(message, sizeof message, "wrong result against %s: relative error %.1e forward, %.1e forward and back",
                what, errors.spectrum, errors.field);
  fail(message);
}

void iterate(Pipeline& pipeline, Mode mode, int iterations, Trace& trace) {
  for (int i = 0; i < iterations; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    trace.begin_iteration();
    pipeline.round_trip(mode, trace);
    trace.end_iteration();
  }
}

// Mode kCompute takes the same time with any data, and has no result to compare.
Mode mode_to_check(Mode mode) {
  return mode == Mode::kCompute ? Mode::kNonblocking : mode;
}

void run(const Options& options) {
  const ProcessGrid grid(options.grid, options.rows, options.columns);
  const int pieces = options.mode == Mode::kTesting ? options.pieces : 1;
  Pipeline pipeline(grid, options.memory, options.variables, static_cast<std::size_t>(pieces));
  Errors serial{};
  if (options.check) {
    serial = compare_with_serial(grid, pipeline, mode_to_check(options.mode));
    require(serial, "the serial transform");
  }
  fill_with_waves(grid, pipeline);
  Trace warm_up;
  iterate(pipeline, mode_to_check(options.mode), 1, warm_up);
  Trace trace;
  iterate(pipeline, options.mode, options.iterations, trace);
  Errors waves{};
  const bool meaningful = options.mode != Mode::kCompute;
  if (meaningful) {
    waves = compare_with_waves(grid, pipeline);
    require(waves, "the analytic field");
  }
  const Figures figures = evaluate(trace);
  if (grid.rank() == 0) {
    print(options, grid, figures, meaningful ? &waves : nullptr, options.check ? &serial : nullptr);
  }
  if (!options.trace.empty()) write_trace(options.trace, options, grid, trace, figures.median_iteration);
}

}  // namespace
}  // namespace fft3d

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (const auto options = fft3d::parse_options(argc, argv, rank)) fft3d::run(*options);
  MPI_Finalize();
  return 0;
}
