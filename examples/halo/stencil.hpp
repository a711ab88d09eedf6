// One step of the stencil: each number becomes a mean of its surroundings, of eighth order.
#pragma once

#include "tile.hpp"

namespace halo {

struct Window {
  int first_row = 0;
  int first_column = 0;
  int end_row = 0;
  int end_column = 0;
};

// The part of a tile that does not depend on its margin.
[[nodiscard]] Window inside_of(const Tile& tile);

// For all fields. Reads up to kReach points around the window.
void apply(const Tile& from, Tile& to, const Window& window);
// The part that is not inside.
void apply_outside(const Tile& from, Tile& to);
void apply_everywhere(const Tile& from, Tile& to);

}  // namespace halo
