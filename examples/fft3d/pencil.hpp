// A rank's part of the grid, and its layout in memory.
#pragma once

#include <array>
#include <cstddef>

#include "memory.hpp"

namespace fft3d {

enum Axis : std::size_t { kX, kY, kZ, kAxes };

using Extents = std::array<std::size_t, kAxes>;

struct Range {
  std::size_t begin;
  std::size_t size;
};

// Part `index` of `size` points, split as evenly as possible among `parts`; empty if there are more parts than points.
[[nodiscard]] Range share(std::size_t size, int parts, int index);

// A part of the grid that is whole along one axis. In memory that axis has stride 1, the others follow in the order of
// `order`: X-pencils x, y, z; Y-pencils y, x, z; Z-pencils z, y, x.
struct Pencil {
  Axis axis;
  std::array<Range, kAxes> ranges;

  [[nodiscard]] Extents extents() const;
  [[nodiscard]] std::size_t points() const;
  [[nodiscard]] Extents strides() const { return strides_of(extents()); }
  // Strides of an array with these extents in this pencil's order.
  [[nodiscard]] Extents strides_of(const Extents& extents) const;
  // Number of lines along the axis.
  [[nodiscard]] std::size_t lines() const;
};

[[nodiscard]] std::size_t product(const Extents& extents);

// Copies a block of `extents` between two arrays, each with its own strides in elements.
void copy_block(const Complex* from, const Extents& from_strides, Complex* to, const Extents& to_strides,
                const Extents& extents);

}  // namespace fft3d
