#include "options.hpp"

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "fail.hpp"

namespace halo {
namespace {

constexpr const char* kHelp =
    "halo: a stencil on a grid of two dimensions, in steps between which ranks exchange the edges of their tiles.\n\n"
    "  --mode MODE            blocking: MPI_Neighbor_alltoallw, then the whole tile;\n"
    "                         nonblocking: MPI_Ineighbor_alltoallw while the inside of the tile is computed "
    "(default);\n"
    "                         testing: the same, with MPI_Test calls between pieces of the computation;\n"
    "                         compute: the computation alone, without its data: how long it takes\n"
    "  --grid COLUMNS,ROWS    points (2048,2048)\n"
    "  --fields F             of numbers, which are exchanged together (4)\n"
    "  --steps S              timed (50), after one that is not\n"
    "  --pieces P             of each step in mode testing (16)\n"
    "  --memory MEMORY        where tiles come from: malloc (default) or alloc_mem, MPI_Alloc_mem\n"
    "  --process-grid R,C     rows and columns of ranks; unless given, MPI_Dims_create chooses\n"
    "  --check                compute it all on rank 0 as well, and compare\n"
    "  --json                 print one line of JSON\n";

int number_in(std::string_view text, int least, int most, std::string_view option) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    refuse(std::string(option) + ": '" + std::string(text) + "' is not a number from " + std::to_string(least) +
           " to " + std::to_string(most));
  }
  return value;
}

void set_pair(std::string_view text, int& first, int& second, std::string_view option) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) refuse(std::string(option) + ": two numbers with a comma between");
  first = number_in(text.substr(0, comma), 1, 1 << 20, option);
  second = number_in(text.substr(comma + 1), 1, 1 << 20, option);
}

Mode mode_named(std::string_view text) {
  for (const Mode mode : {Mode::kBlocking, Mode::kNonblocking, Mode::kTesting, Mode::kCompute}) {
    if (text == name_of(mode)) return mode;
  }
  refuse("--mode: '" + std::string(text) + "' is none of blocking, nonblocking, testing, compute");
}

Memory memory_named(std::string_view text) {
  for (const Memory memory : {Memory::kMalloc, Memory::kAllocMem}) {
    if (text == name_of(memory)) return memory;
  }
  refuse("--memory: '" + std::string(text) + "' is neither malloc nor alloc_mem");
}

void set_option(Options& options, std::string_view option, std::string_view value) {
  if (option == "--mode") {
    options.mode = mode_named(value);
  } else if (option == "--grid") {
    set_pair(value, options.columns, options.rows, option);
  } else if (option == "--fields") {
    options.fields = number_in(value, 1, 1000, option);
  } else if (option == "--steps") {
    options.steps = number_in(value, 1, 1000000, option);
  } else if (option == "--pieces") {
    options.pieces = number_in(value, 1, 1000000, option);
  } else if (option == "--memory") {
    options.memory = memory_named(value);
  } else if (option == "--process-grid") {
    set_pair(value, options.process_rows, options.process_columns, option);
  } else {
    refuse("unknown option '" + std::string(option) + "'; --help lists the options");
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
      if (rank == 0) std::fputs(kHelp, stdout);
      return std::nullopt;
    }
    if (option == "--check" || option == "--json") {
      (option == "--check" ? options.check : options.json) = true;
      continue;
    }
    if (i + 1 == argc) refuse(std::string(option) + ": unknown, or its value is missing; --help lists the options");
    set_option(options, option, argv[++i]);
  }
  return options;
}

}  // namespace halo
