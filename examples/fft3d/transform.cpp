#include "transform.hpp"

#include <climits>
#include <string>

#include "fail.hpp"

namespace fft3d {

Transform::Transform(const Pencil& pencil, Direction direction, Complex* work) {
  if (pencil.points() == 0) return;
  if (pencil.points() > INT_MAX) fail("a rank's part of the grid is larger than FFTW's counts can say");
  const int length = static_cast<int>(pencil.ranges[pencil.axis].size);
  auto* const data = reinterpret_cast<fftw_complex*>(work);
  plan_ = fftw_plan_many_dft(1, &length, static_cast<int>(pencil.lines()), data, nullptr, 1, length, data, nullptr, 1,
                             length, direction == Direction::kForward ? FFTW_FORWARD : FFTW_BACKWARD, FFTW_MEASURE);
  if (plan_ == nullptr) fail("FFTW has no plan for lines of " + std::to_string(length) + " points");
}

Transform::~Transform() {
  if (plan_ != nullptr) fftw_destroy_plan(plan_);
}

void Transform::run() const {
  if (plan_ != nullptr) fftw_execute(plan_);
}

}  // namespace fft3d
