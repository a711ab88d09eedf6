#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "report.hpp"

namespace fft3d {
namespace {

double mean_over_ranks(double mine) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return mine / ranks;
}

void print_errors(const char* against, const Errors* errors) {
  if (errors == nullptr) return;
  std::printf("%-20s relative error forward %.1e, forward and back %.1e\n", against, errors->spectrum, errors->field);
}

void print_json(const Options& options, const ProcessGrid& grid, const Figures& figures) {
  std::printf(
      "{\"mode\": \"%s\", \"memory\": \"%s\", \"grid\": [%zu, %zu, %zu], \"variables\": %d, \"iterations\": %d, "
      "\"rows\": %d, \"columns\": %d, \"median_ms\": %.3f, \"shortest_ms\": %.3f, \"longest_ms\": %.3f, "
      "\"compute_ms\": %.3f, \"post_ms\": %.3f, \"wait_ms\": %.3f}\n",
      name_of(options.mode), name_of(options.memory), options.grid[kX], options.grid[kY], options.grid[kZ],
      options.variables, options.iterations, grid.rows(), grid.columns(), figures.median_s * 1e3,
      figures.shortest_s * 1e3, figures.longest_s * 1e3, figures.compute_s * 1e3, figures.post_s * 1e3,
      figures.wait_s * 1e3);
}

}  // namespace

Figures evaluate(const Trace& trace) {
  std::vector<double> slowest = trace.durations_s();
  MPI_Allreduce(MPI_IN_PLACE, slowest.data(), static_cast<int>(slowest.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  std::vector<std::size_t> order(slowest.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return slowest[a] < slowest[b]; });
  const std::size_t median = order[order.size() / 2];
  return {slowest[median],
          slowest[order.front()],
          slowest[order.back()],
          mean_over_ranks(trace.sum_s(median, Activity::kCompute)),
          mean_over_ranks(trace.sum_s(median, Activity::kPost)),
          mean_over_ranks(trace.sum_s(median, Activity::kWait)),
          median};
}

void print(const Options& options, const ProcessGrid& grid, const Figures& figures, const Errors* waves,
           const Errors* serial) {
  if (options.json) {
    print_json(options, grid, figures);
    return;
  }
  std::printf("fft3d: grid %zu x %zu x %zu, %d variables, %d x %d ranks, %s, memory from %s\n", options.grid[kX],
              options.grid[kY], options.grid[kZ], options.variables, grid.rows(), grid.columns(), name_of(options.mode),
              name_of(options.memory));
  print_errors("analytic field:", waves);
  print_errors("serial transform:", serial);
  std::printf("time per iteration:  median %.2f ms (%.2f to %.2f of %d), the slowest rank's\n", figures.median_s * 1e3,
              figures.shortest_s * 1e3, figures.longest_s * 1e3, options.iterations);
  std::printf("in the median one:   computing %.2f ms, posting %.2f ms, waiting %.2f ms, mean over the ranks\n",
              figures.compute_s * 1e3, figures.post_s * 1e3, figures.wait_s * 1e3);
}

}  // namespace fft3d
