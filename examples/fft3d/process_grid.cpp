#include "process_grid.hpp"

#include <string>

#include "fail.hpp"

namespace fft3d {

ProcessGrid::ProcessGrid(const Extents& grid, int rows, int columns) : grid_(grid), rows_(rows), columns_(columns) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  if (rows_ == 0) {
    int dimensions[2] = {0, 0};
    MPI_Dims_create(ranks, 2, dimensions);
    rows_ = dimensions[0];
    columns_ = dimensions[1];
  }
  if (static_cast<long>(rows_) * columns_ != ranks) {
    fail("--process-grid " + std::to_string(rows_) + "," + std::to_string(columns_) + " does not make " +
         std::to_string(ranks) + " ranks");
  }
  MPI_Comm_split(MPI_COMM_WORLD, rank_ % columns_, rank_, &column_);
  MPI_Comm_split(MPI_COMM_WORLD, rank_ / columns_, rank_, &row_);
}

ProcessGrid::~ProcessGrid() {
  MPI_Comm_free(&column_);
  MPI_Comm_free(&row_);
}

Pencil ProcessGrid::pencil(Axis axis, int rank) const {
  const int row = rank / columns_;
  const int column = rank % columns_;
  const Axis by_rows = axis == kX ? kY : kX;
  const Axis by_columns = axis == kZ ? kY : kZ;
  Pencil pencil{axis, {}};
  pencil.ranges[axis] = {0, grid_[axis]};
  pencil.ranges[by_rows] = share(grid_[by_rows], rows_, row);
  pencil.ranges[by_columns] = share(grid_[by_columns], columns_, column);
  return pencil;
}

}  // namespace fft3d
