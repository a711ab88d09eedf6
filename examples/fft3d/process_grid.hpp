// The ranks as a grid of rows and columns, and their pencils.
#pragma once

#include <mpi.h>

#include "pencil.hpp"

namespace fft3d {

// Y is split among the ranks of a column while X is whole, and vice versa; Z and Y likewise within a row. Owns the
// communicators: destroy it before MPI_Finalize.
class ProcessGrid {
 public:
  // Collective over MPI_COMM_WORLD. rows * columns is its size, or both are 0 and the MPI chooses.
  ProcessGrid(const Extents& grid, int rows, int columns);
  ~ProcessGrid();
  ProcessGrid(const ProcessGrid&) = delete;
  ProcessGrid& operator=(const ProcessGrid&) = delete;

  [[nodiscard]] const Extents& grid() const { return grid_; }
  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return rows_ * columns_; }
  // The pencil of a rank of MPI_COMM_WORLD for a field that is whole along `axis`.
  [[nodiscard]] Pencil pencil(Axis axis, int rank) const;
  [[nodiscard]] Pencil pencil(Axis axis) const { return pencil(axis, rank_); }
  [[nodiscard]] MPI_Comm column() const { return column_; }
  [[nodiscard]] MPI_Comm row() const { return row_; }

 private:
  Extents grid_;
  int rows_;
  int columns_;
  int rank_ = 0;
  MPI_Comm column_ = MPI_COMM_NULL;
  MPI_Comm row_ = MPI_COMM_NULL;
};

}  // namespace fft3d
