#include "pencil.hpp"

#include <algorithm>

namespace fft3d {
namespace {

// Axes from the fastest in memory to the slowest, by the axis along which a pencil is whole.
constexpr std::array<std::array<Axis, kAxes>, kAxes> kOrder = {{{kX, kY, kZ}, {kY, kX, kZ}, {kZ, kY, kX}}};

// A tile of 8 by 8 complex numbers touches eight cache lines on one side and eight pairs on the other.
constexpr std::size_t kTile = 8;

Axis fastest(const Extents& strides) {
  return static_cast<Axis>(std::min_element(strides.begin(), strides.end()) - strides.begin());
}

struct Plane {
  const Complex* from;
  Complex* to;
  std::size_t rows, columns;
  std::size_t from_row, from_column, to_row, to_column;  // strides
};

void copy_plane(const Plane& plane) {
  for (std::size_t row_tile = 0; row_tile < plane.rows; row_tile += kTile) {
    const std::size_t row_end = std::min(plane.rows, row_tile + kTile);
    for (std::size_t column_tile = 0; column_tile < plane.columns; column_tile += kTile) {
      const std::size_t column_end = std::min(plane.columns, column_tile + kTile);
      for (std::size_t row = row_tile; row < row_end; ++row) {
        for (std::size_t column = column_tile; column < column_end; ++column) {
          plane.to[row * plane.to_row + column * plane.to_column] =
              plane.from[row * plane.from_row + column * plane.from_column];
        }
      }
    }
  }
}

void copy_runs(const Plane& plane) {
  for (std::size_t row = 0; row < plane.rows; ++row) {
    std::copy_n(plane.from + row * plane.from_row, plane.columns, plane.to + row * plane.to_row);
  }
}

}  // namespace

Range share(std::size_t size, int parts, int index) {
  const auto part = static_cast<std::size_t>(index);
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t begin = size * part / count;
  return {begin, size * (part + 1) / count - begin};
}

std::size_t product(const Extents& extents) {
  return extents[kX] * extents[kY] * extents[kZ];
}

Extents Pencil::extents() const {
  return {ranges[kX].size, ranges[kY].size, ranges[kZ].size};
}

std::size_t Pencil::points() const {
  return product(extents());
}

std::size_t Pencil::lines() const {
  return ranges[axis].size == 0 ? 0 : points() / ranges[axis].size;
}

Extents Pencil::strides_of(const Extents& extents) const {
  Extents strides{};
  std::size_t stride = 1;
  for (const Axis next : kOrder[axis]) {
    strides[next] = stride;
    stride *= extents[next];
  }
  return strides;
}

void copy_block(const Complex* from, const Extents& from_strides, Complex* to, const Extents& to_strides,
                const Extents& extents) {
  if (product(extents) == 0) return;
  const Axis column = fastest(to_strides);
  // Rows along the source's fastest axis, so that tiles use whole cache lines of both sides.
  const Axis row = fastest(from_strides) != column ? fastest(from_strides) : static_cast<Axis>((column + 1) % kAxes);
  const auto plane_axis = static_cast<Axis>(kX + kY + kZ - row - column);
  for (std::size_t i = 0; i < extents[plane_axis]; ++i) {
    const Plane plane = {from + i * from_strides[plane_axis],
                         to + i * to_strides[plane_axis],
                         extents[row],
                         extents[column],
                         from_strides[row],
                         from_strides[column],
                         to_strides[row],
                         to_strides[column]};
    if (plane.from_column == 1 && plane.to_column == 1) {
      copy_runs(plane);
    } else {
      copy_plane(plane);
    }
  }
}

}  // namespace fft3d
