// One-dimensional transforms of all lines of a pencil, by FFTW.
#pragma once

#include <fftw3.h>

#include <cstddef>

#include "pencil.hpp"

namespace fft3d {

enum class Direction { kForward, kInverse };

// In place, on the array of the constructor, in one or several pieces. The inverse is not normalized.
class Transform {
 public:
  // `work` holds the pencil and outlives this; its contents are lost. At most `pieces` pieces, of whole lines each.
  Transform(const Pencil& pencil, Direction direction, Complex* work, std::size_t pieces);
  ~Transform();
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  [[nodiscard]] std::size_t pieces() const { return piece_ == nullptr ? 0 : full_pieces_ + (rest_ == nullptr ? 0 : 1); }
  void run(std::size_t piece) const;

 private:
  fftw_complex* data_;
  fftw_plan piece_ = nullptr;  // nullptr for a pencil without points
  fftw_plan rest_ = nullptr;   // of the remaining lines; nullptr if there are none
  std::size_t full_pieces_ = 0;
  std::size_t piece_points_ = 0;
};

}  // namespace fft3d
