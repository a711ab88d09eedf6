#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "fail.hpp"

namespace fft3d {
namespace {

constexpr const char* kUsage =
    "fft3d: transforms of several variables on a three-dimensional grid, forward and back, on any number of ranks.\n\n"
    "  --mode MODE            blocking: MPI_Alltoallv, one variable after the other;\n"
    "                         nonblocking: MPI_Ialltoallv of one variable while the others compute (default);\n"
    "                         testing: the same, with MPI_Test calls between pieces of the computation;\n"
    "                         compute: the computation alone, without its data: how long it takes\n"
    "  --grid NX,NY,NZ        points (96,96,96)\n"
    "  --variables V          (4)\n"
    "  --iterations I         timed (20), after one that is not\n"
    "  --pieces P             of each transform in mode testing (8)\n"
    "  --memory MEMORY        where arrays come from: malloc (default) or alloc_mem, MPI_Alloc_mem\n"
    "  --process-grid R,C     rows and columns of ranks; unless given, MPI_Dims_create chooses\n"
    "  --check                compare with a serial transform on rank 0 as well, before timing\n"
    "  --json                 print one line of JSON\n"
    "  --trace FILE           write what each rank did in the iteration of median length, for timeline.py\n";

int parse_number(std::string_view text, int least, int most, std::string_view option) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    fail(std::string(option) + ": '" + std::string(text) + "' is not a number from " + std::to_string(least) + " to " +
         std::to_string(most));
  }
  return value;
}

std::vector<int> parse_numbers(std::string_view text, std::size_t count, std::string_view option) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(parse_number(text.substr(begin, end - begin), 1, 1 << 20, option));
    begin = end + 1;
  }
  if (numbers.size() != count) {
    fail(std::string(option) + " " + std::string(text) + ": " + std::to_string(count) + " numbers with commas between");
  }
  return numbers;
}

Mode parse_mode(std::string_view text) {
  for (const Mode mode : {Mode::kBlocking, Mode::kNonblocking, Mode::kTesting, Mode::kCompute}) {
    if (text == name_of(mode)) return mode;
  }
  fail("--mode: '" + std::string(text) + "' is none of blocking, nonblocking, testing, compute");
}

Memory parse_memory(std::string_view text) {
  for (const Memory memory : {Memory::kMalloc, Memory::kAllocMem}) {
    if (text == name_of(memory)) return memory;
  }
  fail("--memory: '" + std::string(text) + "' is neither malloc nor alloc_mem");
}

bool set_flag(Options& options, std::string_view option) {
  if (option == "--check") {
    options.check = true;
  } else if (option == "--json") {
    options.json = true;
  } else {
    return false;
  }
  return true;
}

void set_value(Options& options, std::string_view option, std::string_view value) {
  if (option == "--mode") {
    options.mode = parse_mode(value);
  } else if (option == "--grid") {
    const std::vector<int> points = parse_numbers(value, kAxes, option);
    for (const Axis axis : {kX, kY, kZ}) options.grid[axis] = static_cast<std::size_t>(points[axis]);
  } else if (option == "--variables") {
    options.variables = parse_number(value, 1, 1000, option);
  } else if (option == "--iterations") {
    options.iterations = parse_number(value, 1, 1000000, option);
  } else if (option == "--pieces") {
    options.pieces = parse_number(value, 1, 1000000, option);
  } else if (option == "--memory") {
    options.memory = parse_memory(value);
  } else if (option == "--process-grid") {
    const std::vector<int> sizes = parse_numbers(value, 2, option);
    options.rows = sizes[0];
    options.columns = sizes[1];
  } else if (option == "--trace") {
    options.trace = value;
  } else {
    fail("unknown option '" + std::string(option) + "'; --help lists the options");
  }
}

}  // namespace

const char* name_of(Mode mode) {
  switch (mode) {
    case Mode::kBlocking: return "blocking";
    case Mode::kNonblocking: return "nonblocking";
    case Mode::kTesting: return "testing";
    default: return "compute";
  }
}

const char* name_of(Memory memory) {
  return memory == Memory::kMalloc ? "malloc" : "alloc_mem";
}

std::optional<Options> parse_options(int argc, char** argv, int rank) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      if (rank == 0) std::fputs(kUsage, stdout);
      return std::nullopt;
    }
    if (set_flag(options, option)) continue;
    if (i + 1 == argc) fail(std::string(option) + ": unknown, or its value is missing; --help lists the options");
    set_value(options, option, argv[++i]);
  }
  return options;
}

}  // namespace fft3d
