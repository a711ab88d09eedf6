#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "check.hpp"

namespace fft3d {
namespace {

constexpr int kWaves = 3;

struct Wave {
  Extents number;  // whole periods along each axis
  Complex amplitude;
};

// Waves of one variable may coincide on a small grid; their amplitudes then add up on both sides of the comparison.
Wave wave(const Extents& grid, int variable, int index) {
  const auto seed = static_cast<std::size_t>(7 * variable + 3 * index);
  return {{(seed + 1) % grid[kX], (2 * seed + 1) % grid[kY], (5 * seed + 2) % grid[kZ]},
          {1.0 + index, 0.5 * variable - 1.0}};
}

Complex phase(std::size_t number, std::size_t position, std::size_t size) {
  // Reduced in integers, so that the field is exact up to rounding on any grid.
  const double turns = static_cast<double>(number * position % size) / static_cast<double>(size);
  return std::polar(1.0, 2 * std::numbers::pi * turns);
}

Complex field_at(const Extents& grid, int variable, const Extents& point) {
  Complex sum = 0;
  for (int index = 0; index < kWaves; ++index) {
    const Wave part = wave(grid, variable, index);
    Complex value = part.amplitude;
    for (const Axis axis : {kX, kY, kZ}) value *= phase(part.number[axis], point[axis], grid[axis]);
    sum += value;
  }
  return sum;
}

Complex spectrum_at(const Extents& grid, int variable, const Extents& point) {
  Complex sum = 0;
  for (int index = 0; index < kWaves; ++index) {
    const Wave part = wave(grid, variable, index);
    if (part.number == point) sum += part.amplitude * static_cast<double>(product(grid));
  }
  return sum;
}

// Calls visit(index in memory, point of the grid) for all points of a pencil.
template <typename Visit>
void for_each_point(const Pencil& pencil, const Visit& visit) {
  const Extents strides = pencil.strides();
  const auto& ranges = pencil.ranges;
  for (std::size_t z = 0; z < ranges[kZ].size; ++z) {
    for (std::size_t y = 0; y < ranges[kY].size; ++y) {
      for (std::size_t x = 0; x < ranges[kX].size; ++x) {
        visit(x * strides[kX] + y * strides[kY] + z * strides[kZ],
              Extents{ranges[kX].begin + x, ranges[kY].begin + y, ranges[kZ].begin + z});
      }
    }
  }
}

using Expected = Complex (*)(const Extents& grid, int variable, const Extents& point);

struct Difference {
  double largest = 0;
  double scale = 0;  // the largest expected value
};

void compare(const Pencil& pencil, const Extents& grid, int variable, const Complex* values, Expected expected,
             Difference& difference) {
  for_each_point(pencil, [&](std::size_t at, const Extents& point) {
    const Complex wanted = expected(grid, variable, point);
    const double off = std::abs(values[at] - wanted);
    // This form counts a NaN as a difference.
    if (!(off <= difference.largest)) difference.largest = std::isnan(off) ? HUGE_VAL : off;
    difference.scale = std::max(difference.scale, std::abs(wanted));
  });
}

double over_all_ranks(const Difference& mine) {
  double values[2] = {mine.largest, mine.scale};
  MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return values[0] / values[1];
}

}  // namespace

void fill_with_waves(const ProcessGrid& grid, Pipeline& pipeline) {
  for (std::size_t variable = 0; variable < pipeline.variables().size(); ++variable) {
    Complex* const field = pipeline.variables()[variable].field.get();
    for_each_point(grid.pencil(kX), [&](std::size_t at, const Extents& point) {
      field[at] = field_at(grid.grid(), static_cast<int>(variable), point);
    });
  }
}

Errors compare_with_waves(const ProcessGrid& grid, const Pipeline& pipeline) {
  Difference spectrum;
  Difference field;
  for (std::size_t i = 0; i < pipeline.variables().size(); ++i) {
    const Variable& variable = pipeline.variables()[i];
    const int number = static_cast<int>(i);
    compare(grid.pencil(kZ), grid.grid(), number, variable.spectrum.get(), spectrum_at, spectrum);
    compare(grid.pencil(kX), grid.grid(), number, variable.field.get(), field_at, field);
  }
  return {over_all_ranks(spectrum), over_all_ranks(field)};
}

}  // namespace fft3d
