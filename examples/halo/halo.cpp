// A stencil on a two-dimensional grid, cut into one tile per rank. Each step needs the edges of the neighbors' tiles;
// with MPI_Ineighbor_alltoallw they are in flight while the inside of the tile is computed. An ordinary MPI program,
// without Outrigger's API.
//
//     post      inside of the tile            wait   outside
//     ├┤ ██████████████████████████████████ ├──────┤ ████
//      └──────────── edges in flight ─────────────┘
#include <mpi.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "fail.hpp"
#include "options.hpp"
#include "stencil.hpp"
#include "tile.hpp"

namespace halo {
namespace {

struct Times {
  double step_s = 0;
  double waiting_s = 0;  // part of a step in MPI calls
};

// The whole grid on all ranks, rows first. Ends the job if a tile is smaller than the stencil's reach.
class Grid {
 public:
  explicit Grid(const Options& options) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::array<int, 2> lengths{options.process_rows, options.process_columns};
    if (lengths[0] == 0) MPI_Dims_create(ranks, 2, lengths.data());
    if (lengths[0] * lengths[1] != ranks) refuse("--process-grid: not as many as there are ranks");
    if (options.rows / lengths[0] < kReach || options.columns / lengths[1] < kReach) {
      refuse("--grid: tiles are smaller than the stencil reaches");
    }
    const std::array<int, 2> periodic{0, 0};
    MPI_Cart_create(MPI_COMM_WORLD, 2, lengths.data(), periodic.data(), 1, &comm_);
    int rank = 0;
    std::array<int, 2> here{};
    MPI_Comm_rank(comm_, &rank);
    MPI_Cart_coords(comm_, rank, 2, here.data());
    place_.first_row = begin_of(options.rows, lengths[0], here[0]);
    place_.rows = begin_of(options.rows, lengths[0], here[0] + 1) - place_.first_row;
    place_.first_column = begin_of(options.columns, lengths[1], here[1]);
    place_.columns = begin_of(options.columns, lengths[1], here[1] + 1) - place_.first_column;
  }
  ~Grid() { MPI_Comm_free(&comm_); }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] const Place& place() const { return place_; }

 private:
  static int begin_of(int points, int parts, int part) {
    return static_cast<int>(static_cast<std::int64_t>(points) * part / parts);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  Place place_;
};

// Computes the inside of the tile, and tests the request after each piece.
void compute_inside(const Options& options, const Tile& from, Tile& to, MPI_Request* request) {
  const Window inside = inside_of(from);
  const int pieces = options.mode == Mode::kTesting ? options.pieces : 1;
  const int rows = inside.end_row - inside.first_row;
  for (int piece = 0; piece < pieces; ++piece) {
    Window part = inside;
    part.first_row = inside.first_row + static_cast<int>(static_cast<std::int64_t>(rows) * piece / pieces);
    part.end_row = inside.first_row + static_cast<int>(static_cast<std::int64_t>(rows) * (piece + 1) / pieces);
    apply(from, to, part);
    int done = 0;
    if (options.mode == Mode::kTesting) MPI_Test(request, &done, MPI_STATUS_IGNORE);
  }
}

// Returns the time in MPI calls.
double step(const Options& options, const Edges& edges, MPI_Comm comm, Tile& from, Tile& to) {
  const double begin = MPI_Wtime();
  if (options.mode == Mode::kBlocking) edges.exchange(from, comm);
  if (options.mode == Mode::kBlocking || options.mode == Mode::kCompute) {
    const double exchanged = MPI_Wtime();
    apply_everywhere(from, to);
    return exchanged - begin;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  edges.start(from, comm, &request);
  const double posted = MPI_Wtime();
  compute_inside(options, from, to, &request);
  const double computed = MPI_Wtime();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const double waited = MPI_Wtime();
  apply_outside(from, to);
  return posted - begin + (waited - computed);
}

Times run(const Options& options, const Grid& grid, Tile& tile, Tile& other) {
  const Edges edges(tile);
  static_cast<void>(step(options, edges, grid.comm(), tile, other));
  std::swap(tile, other);
  MPI_Barrier(grid.comm());
  Times times;
  const double begin = MPI_Wtime();
  for (int i = 0; i < options.steps; ++i) {
    times.waiting_s += step(options, edges, grid.comm(), tile, other);
    std::swap(tile, other);
  }
  MPI_Barrier(grid.comm());
  times.step_s = (MPI_Wtime() - begin) / options.steps;
  times.waiting_s /= options.steps;
  return times;
}

// The same on one rank, without exchanges.
std::uint64_t serial_checksum(const Options& options) {
  const Place whole{0, 0, options.columns, options.rows};
  Tile tile(whole, options.fields, Memory::kMalloc);
  Tile other(whole, options.fields, Memory::kMalloc);
  for (int i = 0; i <= options.steps; ++i) {
    apply_everywhere(tile, other);
    std::swap(tile, other);
  }
  return tile.checksum(options.columns);
}

void print(const Options& options, int ranks, std::size_t edge_bytes, const Times& times, std::uint64_t checksum) {
  if (options.json) {
    std::printf(
        "{\"mode\": \"%s\", \"ranks\": %d, \"grid\": [%d, %d], \"fields\": %d, \"edge_bytes\": %zu, \"step_ms\": %.3f, "
        "\"mpi_ms\": %.3f, \"checksum\": \"%016" PRIx64 "\"}\n",
        name_of(options.mode), ranks, options.columns, options.rows, options.fields, edge_bytes, times.step_s * 1e3,
        times.waiting_s * 1e3, checksum);
    return;
  }
  std::printf("halo: %s, %d ranks, %d x %d points, %d fields, %zu bytes of edges a rank, memory %s\n",
              name_of(options.mode), ranks, options.columns, options.rows, options.fields, edge_bytes,
              name_of(options.memory));
  std::printf("step       %10.3f ms\nMPI calls  %10.3f ms of it (mean of the ranks)\nchecksum   %016" PRIx64 "\n",
              times.step_s * 1e3, times.waiting_s * 1e3, checksum);
}

// False: wrong numbers.
bool run_all(const Options& options) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (options.check && options.mode == Mode::kCompute) refuse("--check: mode compute is without the data");
  const Grid grid(options);
  Tile tile(grid.place(), options.fields, options.memory);
  Tile other(grid.place(), options.fields, options.memory);
  const std::size_t edge_bytes = Edges(tile).bytes();
  const Times mine = run(options, grid, tile, other);
  Times times = mine;
  const std::uint64_t own = tile.checksum(options.columns);
  std::uint64_t checksum = 0;
  MPI_Reduce(&own, &checksum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine.step_s, &times.step_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine.waiting_s, &times.waiting_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  times.waiting_s /= ranks;
  if (rank == 0) print(options, ranks, edge_bytes, times, checksum);
  if (!options.check || rank != 0) return true;
  const bool right = serial_checksum(options) == checksum;
  std::printf("%s\n", right ? "the same as on one rank" : "WRONG: not the same as on one rank");
  return right;
}

}  // namespace
}  // namespace halo

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool right = true;
  if (const std::optional<halo::Options> options = halo::parse_options(argc, argv, rank)) {
    right = halo::run_all(*options);
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
