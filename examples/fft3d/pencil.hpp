// Which part of the grid a rank holds, and how it lies in memory.
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

// Part `index` of `size` points split among `parts` as evenly as they go; empty where there are more parts than points.
[[nodiscard]] Range share(std::size_t size, int parts, int index);

// A part of the grid that is whole along one axis. In memory that axis has stride 1, the others follow in the order of
// `order`: X-pencils x, y, z; Y-pencils y, x, z; Z-pencils z, y, x.
struct Pencil {
  Axis axis;
  std::array<Range, kAxes> ranges;

  [[nodiscard]] Extents extents() const;
  [[nodiscard]] std::size_t points() const;
  [[nodiscard]] Extents strides() const { return strides_of(extents()); }
  // The strides that an array of these extents has in this pencil's order.
  [[nodiscard]] Extents strides_of(const Extents& extents) const;
  // How many lines along the axis.
  [[nodiscard]] std::size_t lines() const;
};

[[nodiscard]] std::size_t product(const Extents& extents);

// Copies a block of `extents` between two arrays, each with its own strides in elements.
void copy_block(const Complex* from, const Extents& from_strides, Complex* to, const Extents& to_strides,
                const Extents& extents);

}  // namespace fft3d
