#include "tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fail.hpp"

namespace halo {
namespace {

std::unique_ptr<double[], Release> allocate(Memory memory, std::size_t numbers) {
  const std::size_t bytes = numbers * sizeof(double);
  void* data = nullptr;
  if (memory == Memory::kMalloc) {
    data = std::malloc(bytes);
  } else if (MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &data) != MPI_SUCCESS) {
    data = nullptr;
  }
  if (data == nullptr) fail("no memory for " + std::to_string(bytes) + " bytes; take a smaller --grid");
  auto* const first = static_cast<double*>(data);
  std::uninitialized_fill_n(first, numbers, 0.0);
  return {first, Release{memory}};
}

// Some hills, different in each field.
double at_first(int field, int column, int row) {
  return std::sin(0.011 * (column + 7.0 * field)) * std::cos(0.017 * (row - 3.0 * field)) +
         0.001 * ((column ^ row) & 7);
}

// A part of a tile in memory.
struct Part {
  int first_row;
  int first_column;
  int rows;
  int columns;
};

MPI_Datatype type_of(const Tile& tile, const Part& part) {
  const int sizes[3] = {tile.fields(), tile.rows() + 2 * kReach, tile.columns() + 2 * kReach};
  const int parts[3] = {tile.fields(), part.rows, part.columns};
  const int starts[3] = {0, part.first_row + kReach, part.first_column + kReach};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

}  // namespace

void Release::operator()(double* data) const {
  if (memory == Memory::kMalloc) {
    std::free(data);
  } else {
    MPI_Free_mem(data);
  }
}

Tile::Tile(const Place& place, int fields, Memory memory)
    : place_(place),
      fields_(fields),
      numbers_(allocate(memory, static_cast<std::size_t>(fields) * static_cast<std::size_t>(place.rows + 2 * kReach) *
                                    static_cast<std::size_t>(place.columns + 2 * kReach))) {
  for (int field = 0; field < fields_; ++field) {
    for (int y = 0; y < place_.rows; ++y) {
      double* const here = row(field, y);
      for (int x = 0; x < place_.columns; ++x) {
        here[x] = at_first(field, place_.first_column + x, place_.first_row + y);
      }
    }
  }
}

std::uint64_t Tile::checksum(int grid_columns) const {
  std::uint64_t sum = 0;
  for (int field = 0; field < fields_; ++field) {
    for (int y = 0; y < place_.rows; ++y) {
      const double* const here = row(field, y);
      const auto first = static_cast<std::uint64_t>(place_.first_row + y) * static_cast<std::uint64_t>(grid_columns) +
                         static_cast<std::uint64_t>(place_.first_column);
      for (int x = 0; x < place_.columns; ++x) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &here[x], sizeof bits);
        const std::uint64_t point = (first + static_cast<std::uint64_t>(x)) * 8 + static_cast<std::uint64_t>(field);
        sum += bits * (2 * point * 0x9E3779B97F4A7C15ULL + 1);
      }
    }
  }
  return sum;
}

Edges::Edges(const Tile& tile) {
  const int rows = tile.rows();
  const int columns = tile.columns();
  const std::array<Part, kSides> edges{Part{0, 0, kReach, columns}, Part{rows - kReach, 0, kReach, columns},
                                       Part{0, 0, rows, kReach}, Part{0, columns - kReach, rows, kReach}};
  const std::array<Part, kSides> margins{Part{-kReach, 0, kReach, columns}, Part{rows, 0, kReach, columns},
                                         Part{0, -kReach, rows, kReach}, Part{0, columns, rows, kReach}};
  for (std::size_t side = 0; side < kSides; ++side) {
    edges_[side] = type_of(tile, edges[side]);
    margins_[side] = type_of(tile, margins[side]);
    int bytes = 0;
    MPI_Type_size(edges_[side], &bytes);
    bytes_ += static_cast<std::size_t>(bytes);
  }
}

Edges::~Edges() {
  for (std::size_t side = 0; side < kSides; ++side) {
    MPI_Type_free(&edges_[side]);
    MPI_Type_free(&margins_[side]);
  }
}

void Edges::exchange(Tile& tile, MPI_Comm grid) const {
  MPI_Neighbor_alltoallw(tile.numbers(), counts_.data(), displacements_.data(), edges_.data(), tile.numbers(),
                         counts_.data(), displacements_.data(), margins_.data(), grid);
}

void Edges::start(Tile& tile, MPI_Comm grid, MPI_Request* request) const {
  MPI_Ineighbor_alltoallw(tile.numbers(), counts_.data(), displacements_.data(), edges_.data(), tile.numbers(),
                          counts_.data(), displacements_.data(), margins_.data(), grid, request);
}

}  // namespace halo
