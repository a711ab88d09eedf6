#include <fftw3.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "fail.hpp"

namespace fft3d {
namespace {

// A whole grid on rank 0, x fastest; empty on the others.
using Whole = std::vector<Complex>;

Complex random_value(std::uint64_t& state) {
  const auto next = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 11) / static_cast<double>(1ULL << 53) - 0.5;
  };
  const double real = next();
  return {real, next()};
}

void fill_with_noise(const ProcessGrid& grid, int variable, Complex* field) {
  auto state = static_cast<std::uint64_t>(variable) * 1000 + static_cast<std::uint64_t>(grid.rank()) + 1;
  std::generate_n(field, grid.pencil(kX).points(), [&state] { return random_value(state); });
}

// Offset of a pencil's part in the whole grid.
std::size_t offset_in(const Extents& grid, const Pencil& part) {
  return part.ranges[kX].begin + grid[kX] * (part.ranges[kY].begin + grid[kY] * part.ranges[kZ].begin);
}

void place(const Extents& grid, const Pencil& part, const Complex* values, Whole& whole) {
  const Extents strides = {1, grid[kX], grid[kX] * grid[kY]};
  copy_block(values, part.strides(), whole.data() + offset_in(grid, part), strides, part.extents());
}

Whole gather(const ProcessGrid& grid, Axis axis, const Complex* values) {
  if (grid.rank() != 0) {
    MPI_Send(values, static_cast<int>(grid.pencil(axis).points()), MPI_C_DOUBLE_COMPLEX, 0, 0, MPI_COMM_WORLD);
    return {};
  }
  Whole whole(product(grid.grid()));
  place(grid.grid(), grid.pencil(axis), values, whole);
  for (int rank = 1; rank < grid.ranks(); ++rank) {
    const Pencil part = grid.pencil(axis, rank);
    std::vector<Complex> received(part.points());
    MPI_Recv(received.data(), static_cast<int>(received.size()), MPI_C_DOUBLE_COMPLEX, rank, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    place(grid.grid(), part, received.data(), whole);
  }
  return whole;
}

void transform_whole(const Extents& grid, Whole& whole) {
  auto* const data = reinterpret_cast<fftw_complex*>(whole.data());
  const fftw_plan plan = fftw_plan_dft_3d(static_cast<int>(grid[kZ]), static_cast<int>(grid[kY]),
                                          static_cast<int>(grid[kX]), data, data, FFTW_FORWARD, FFTW_ESTIMATE);
  if (plan == nullptr) fail("FFTW has no plan for the whole grid");
  fftw_execute(plan);
  fftw_destroy_plan(plan);
}

double difference(const Whole& values, const Whole& expected) {
  double largest = 0;
  double scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = std::abs(values[i] - expected[i]);
    if (!(off <= largest)) largest = std::isnan(off) ? HUGE_VAL : off;
    scale = std::max(scale, std::abs(expected[i]));
  }
  return scale > 0 ? largest / scale : 0;
}

}  // namespace

Errors compare_with_serial(const ProcessGrid& grid, Pipeline& pipeline, Mode mode) {
  auto& variables = pipeline.variables();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    fill_with_noise(grid, static_cast<int>(i), variables[i].field.get());
  }
  std::vector<Whole> fields;
  for (const Variable& variable : variables) fields.push_back(gather(grid, kX, variable.field.get()));
  Trace trace;
  trace.begin_iteration();
  pipeline.forward(mode, trace);
  pipeline.inverse(mode, trace);
  Errors errors{0, 0};
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Whole field = gather(grid, kX, variables[i].field.get());
    const Whole spectrum = gather(grid, kZ, variables[i].spectrum.get());
    if (grid.rank() != 0) continue;
    errors.field = std::max(errors.field, difference(field, fields[i]));
    transform_whole(grid.grid(), fields[i]);
    errors.spectrum = std::max(errors.spectrum, difference(spectrum, fields[i]));
  }
  double both[2] = {errors.spectrum, errors.field};
  MPI_Bcast(both, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return {both[0], both[1]};
}

}  // namespace fft3d
