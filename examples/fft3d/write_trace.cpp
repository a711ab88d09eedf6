#include <mpi.h>

#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "fail.hpp"
#include "report.hpp"

namespace fft3d {
namespace {

constexpr std::array<const char*, 3> kActivityNames = {"compute", "post", "wait"};

struct RankTrace {
  std::string node;
  std::vector<Interval> intervals;
};

// Clocks of different machines differ, so times are relative to the rank's exit from the preceding barrier.
RankTrace receive_from(int rank) {
  char node[MPI_MAX_PROCESSOR_NAME] = "";
  MPI_Recv(node, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Status status;
  int bytes = 0;
  MPI_Probe(rank, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  RankTrace trace{node, std::vector<Interval>(static_cast<std::size_t>(bytes) / sizeof(Interval))};
  MPI_Recv(trace.intervals.data(), bytes, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return trace;
}

void write_rank(std::FILE* file, int rank, const RankTrace& trace) {
  std::fprintf(file, "%s\n  {\"rank\": %d, \"node\": \"%s\", \"intervals\": [", rank == 0 ? "" : ",", rank,
               trace.node.c_str());
  const char* separator = "";
  for (const Interval& interval : trace.intervals) {
    std::fprintf(file,
                 "%s\n    {\"activity\": \"%s\", \"variable\": %d, \"stage\": \"%s\", \"begin_ms\": %.4f, "
                 "\"end_ms\": %.4f}",
                 separator, kActivityNames[static_cast<std::size_t>(interval.activity)], interval.variable,
                 Pipeline::kStageNames[static_cast<std::size_t>(interval.stage)], interval.begin_s * 1e3,
                 interval.end_s * 1e3);
    separator = ",";
  }
  std::fputs("]}", file);
}

void write_all(const std::string& path, const Options& options, const ProcessGrid& grid, const RankTrace& own) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) fail("--trace " + path + ": cannot be written");
  std::fprintf(file,
               "{\"mode\": \"%s\", \"memory\": \"%s\", \"grid\": [%zu, %zu, %zu], \"variables\": %d, \"rows\": %d, "
               "\"columns\": %d, \"ranks\": [",
               name_of(options.mode), name_of(options.memory), options.grid[kX], options.grid[kY], options.grid[kZ],
               options.variables, grid.rows(), grid.columns());
  write_rank(file, 0, own);
  for (int rank = 1; rank < grid.ranks(); ++rank) write_rank(file, rank, receive_from(rank));
  std::fputs("]}\n", file);
  if (std::fclose(file) != 0) fail("--trace " + path + ": could not be written to its end");
}

}  // namespace

void write_trace(const std::string& path, const Options& options, const ProcessGrid& grid, const Trace& trace,
                 std::size_t iteration) {
  char node[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(node, &length);
  const std::vector<Interval>& intervals = trace.iteration(iteration);
  if (grid.rank() == 0) {
    write_all(path, options, grid, {node, intervals});
    return;
  }
  MPI_Send(node, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  MPI_Send(intervals.data(), static_cast<int>(intervals.size() * sizeof(Interval)), MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

}  // namespace fft3d
