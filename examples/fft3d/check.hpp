// Tests of the transforms.
#pragma once

#include "pipeline.hpp"
#include "process_grid.hpp"

namespace fft3d {

// Every variable becomes a few plane waves, different ones for each: their transform is known.
void fill_with_waves(const ProcessGrid& grid, Pipeline& pipeline);

// The largest differences found, relative to the largest expected value. On all ranks.
struct Errors {
  double spectrum;
  double field;
};

// Compares the variables' present values with the waves and their transforms.
[[nodiscard]] Errors compare_with_waves(const ProcessGrid& grid, const Pipeline& pipeline);

// Runs pseudorandom fields forward and back, and compares with a serial transform of the whole grid on rank 0, which
// needs memory for it. Replaces the fields.
[[nodiscard]] Errors compare_with_serial(const ProcessGrid& grid, Pipeline& pipeline, Mode mode);

// Rounding errors grow with the logarithm of the number of points; wrong data are off by far more.
constexpr double kTolerance = 1e-11;

}  // namespace fft3d
