#include "stencil.hpp"

#include <algorithm>
#include <array>

namespace halo {
namespace {

// Weights of the second derivative, by distance.
constexpr std::array<double, kReach + 1> kWeights{-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
constexpr double kRate = 0.1;

void apply_to_row(const double* from, std::size_t pitch, double* to, int first, int end) {
  for (int x = first; x < end; ++x) {
    double curvature = 2 * kWeights[0] * from[x];
    for (int away = 1; away <= kReach; ++away) {
      const auto rows = static_cast<std::ptrdiff_t>(pitch) * away;
      const double sides = from[x - away] + from[x + away];
      const double ends = from[x - rows] + from[x + rows];
      curvature += kWeights[static_cast<std::size_t>(away)] * (sides + ends);
    }
    to[x] = from[x] + kRate * curvature;
  }
}

}  // namespace

Window inside_of(const Tile& tile) {
  return {kReach, kReach, std::max(kReach, tile.rows() - kReach), std::max(kReach, tile.columns() - kReach)};
}

void apply(const Tile& from, Tile& to, const Window& window) {
  for (int field = 0; field < from.fields(); ++field) {
    for (int y = window.first_row; y < window.end_row; ++y) {
      apply_to_row(from.row(field, y), from.pitch(), to.row(field, y), window.first_column, window.end_column);
    }
  }
}

void apply_outside(const Tile& from, Tile& to) {
  const Window inside = inside_of(from);
  const int below = std::max(inside.end_row, kReach);
  apply(from, to, {0, 0, std::min(kReach, from.rows()), from.columns()});
  apply(from, to, {below, 0, from.rows(), from.columns()});
  apply(from, to, {kReach, 0, below, std::min(kReach, from.columns())});
  apply(from, to, {kReach, std::max(inside.end_column, kReach), below, from.columns()});
}

void apply_everywhere(const Tile& from, Tile& to) {
  apply(from, to, {0, 0, from.rows(), from.columns()});
}

}  // namespace halo
