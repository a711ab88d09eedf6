// A rank's part of the grid: some fields of numbers, with a margin around them for the neighbors' edges.
//
//     . . + + + + + + . .
//     . . + + + + + + . .
//     + + o o o o o o + +
//     + + o o o o o o + +
//     + + o o       o o + +  ...
//
// o: edge, which neighbors need. +: margin, with the edges of the neighbors' tiles, or zeros at the border of the grid.
// The corners (.) are never used: the stencil is a star.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace halo {

// Reach of the stencil, in points.
inline constexpr int kReach = 4;

enum class Memory { kMalloc, kAllocMem };

struct Release {
  Memory memory;
  void operator()(double* data) const;
};

// Position of a tile in the whole grid.
struct Place {
  int first_column = 0;
  int first_row = 0;
  int columns = 0;
  int rows = 0;
};

class Tile {
 public:
  // Has the grid's initial values; ends the job if there is no memory.
  Tile(const Place& place, int fields, Memory memory);

  [[nodiscard]] int columns() const { return place_.columns; }
  [[nodiscard]] int rows() const { return place_.rows; }
  [[nodiscard]] int fields() const { return fields_; }
  // Points from one row to the next.
  [[nodiscard]] std::size_t pitch() const { return static_cast<std::size_t>(place_.columns + 2 * kReach); }
  // A row of a field, from the tile's first column on; rows and columns from -kReach on are the margin.
  [[nodiscard]] double* row(int field, int row) { return numbers_.get() + index(field, row); }
  [[nodiscard]] const double* row(int field, int row) const { return numbers_.get() + index(field, row); }
  [[nodiscard]] double* numbers() { return numbers_.get(); }

  // Independent of the grid's division into tiles: to be summed over all.
  [[nodiscard]] std::uint64_t checksum(int grid_columns) const;

 private:
  [[nodiscard]] std::size_t index(int field, int row) const {
    const auto rows = static_cast<std::size_t>(place_.rows + 2 * kReach);
    return (static_cast<std::size_t>(field) * rows + static_cast<std::size_t>(row + kReach)) * pitch() + kReach;
  }

  Place place_;
  int fields_;
  std::unique_ptr<double[], Release> numbers_;
};

// Arguments of MPI_(I)neighbor_alltoallw for a tile, in the order of a Cartesian communicator whose dimensions are rows
// and columns: up, down, left, right.
class Edges {
 public:
  explicit Edges(const Tile& tile);
  ~Edges();
  Edges(const Edges&) = delete;
  Edges& operator=(const Edges&) = delete;

  void exchange(Tile& tile, MPI_Comm grid) const;
  void start(Tile& tile, MPI_Comm grid, MPI_Request* request) const;
  // Bytes of one rank's exchange with all neighbors.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kSides = 4;
  std::array<int, kSides> counts_{1, 1, 1, 1};
  std::array<MPI_Aint, kSides> displacements_{};  // the types have the offsets
  std::array<MPI_Datatype, kSides> edges_{};
  std::array<MPI_Datatype, kSides> margins_{};
  std::size_t bytes_ = 0;
};

}  // namespace halo
