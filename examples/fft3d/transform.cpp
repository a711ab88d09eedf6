#include "transform.hpp"

#include <climits>
#include <string>

#include "fail.hpp"

namespace fft3d {

namespace {

fftw_plan make_plan(fftw_complex* data, std::size_t lines, int length, Direction direction) {
  if (lines == 0) return nullptr;
  const int sign = direction == Direction::kForward ? FFTW_FORWARD : FFTW_BACKWARD;
  const fftw_plan plan = fftw_plan_many_dft(1, &length, static_cast<int>(lines), data, nullptr, 1, length, data,
                                            nullptr, 1, length, sign, FFTW_MEASURE);
  if (plan == nullptr) fail("FFTW has no plan for lines of " + std::to_string(length) + " points");
  return plan;
}

}  // namespace

Transform::Transform(const Pencil& pencil, Direction direction, Complex* work, std::size_t pieces)
    : data_(reinterpret_cast<fftw_complex*>(work)) {
  if (pencil.points() == 0) return;
  if (pencil.points() > INT_MAX) fail("a rank's part of the grid is larger than FFTW's counts can say");
  const std::size_t length = pencil.ranges[pencil.axis].size;
  const std::size_t lines = (pencil.lines() + pieces - 1) / pieces;  // of a piece
  full_pieces_ = pencil.lines() / lines;
  piece_points_ = lines * length;
  piece_ = make_plan(data_, lines, static_cast<int>(length), direction);
  // FFTW's plans depend on alignment; a complex number's size equals it, so they work for any line.
  rest_ = make_plan(data_ + full_pieces_ * piece_points_, pencil.lines() % lines, static_cast<int>(length), direction);
}

Transform::~Transform() {
  if (piece_ != nullptr) fftw_destroy_plan(piece_);
  if (rest_ != nullptr) fftw_destroy_plan(rest_);
}

void Transform::run(std::size_t piece) const {
  fftw_complex* const data = data_ + piece * piece_points_;
  fftw_execute_dft(piece < full_pieces_ ? piece_ : rest_, data, data);
}

}  // namespace fft3d
