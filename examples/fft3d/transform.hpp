// One-dimensional transforms of all lines of a pencil, by FFTW.
#pragma once

#include <fftw3.h>

#include "pencil.hpp"

namespace fft3d {

enum class Direction { kForward, kInverse };

// In place, on the array it was made for. The inverse is not normalized.
class Transform {
 public:
  // `work` holds the pencil and outlives this; its contents are lost.
  Transform(const Pencil& pencil, Direction direction, Complex* work);
  ~Transform();
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  void run() const;

 private:
  fftw_plan plan_ = nullptr;  // null for a pencil without points
};

}  // namespace fft3d
