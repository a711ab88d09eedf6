// Times of the iterations, and their output.
#pragma once

#include <string>

#include "check.hpp"
#include "options.hpp"
#include "trace.hpp"

namespace fft3d {

// Results of the timed iterations: medians of the slowest rank, or of the mean over the ranks.
struct Figures {
  double median_s;
  double shortest_s;
  double longest_s;
  double compute_s;  // in the iteration of median length, mean over the ranks
  double post_s;
  double wait_s;
  std::size_t median_iteration;
};

// Collective; the figures on all ranks.
[[nodiscard]] Figures evaluate(const Trace& trace);

// On rank 0.
void print(const Options& options, const ProcessGrid& grid, const Figures& figures, const Errors* waves,
           const Errors* serial);

// Collective: rank 0 writes the intervals of all ranks in one iteration.
void write_trace(const std::string& path, const Options& options, const ProcessGrid& grid, const Trace& trace,
                 std::size_t iteration);

}  // namespace fft3d
