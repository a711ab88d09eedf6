// A rank's actions and their times in one iteration.
#pragma once

#include <cstddef>
#include <vector>

namespace fft3d {

enum class Activity { kCompute, kPost, kWait };

struct Interval {
  Activity activity;
  int variable;
  int stage;
  double begin_s;  // since the iteration's start on this rank
  double end_s;
};

// The intervals of a rank's iterations, in order of time.
class Trace {
 public:
  void begin_iteration();
  void end_iteration();
  // The seconds since the start of the iteration.
  [[nodiscard]] double now() const;
  // From `begin_s` until now.
  void add(Activity activity, int variable, int stage, double begin_s);

  [[nodiscard]] const std::vector<double>& durations_s() const { return durations_s_; }
  [[nodiscard]] const std::vector<Interval>& iteration(std::size_t index) const { return iterations_[index]; }
  [[nodiscard]] double sum_s(std::size_t iteration, Activity activity) const;

 private:
  double start_s_ = 0;
  std::vector<double> durations_s_;
  std::vector<std::vector<Interval>> iterations_;
};

}  // namespace fft3d
