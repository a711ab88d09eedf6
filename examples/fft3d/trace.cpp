#include "trace.hpp"

#include <mpi.h>

namespace fft3d {

void Trace::begin_iteration() {
  iterations_.emplace_back().reserve(iterations_.empty() ? 0 : 64);
  start_s_ = MPI_Wtime();
}

void Trace::end_iteration() {
  durations_s_.push_back(now());
}

double Trace::now() const {
  return MPI_Wtime() - start_s_;
}

void Trace::add(Activity activity, int variable, int stage, double begin_s) {
  iterations_.back().push_back({activity, variable, stage, begin_s, now()});
}

double Trace::sum_s(std::size_t iteration, Activity activity) const {
  double sum = 0;
  for (const Interval& interval : iterations_[iteration]) {
    if (interval.activity == activity) sum += interval.end_s - interval.begin_s;
  }
  return sum;
}

}  // namespace fft3d
