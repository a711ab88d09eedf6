// Measures what a program does beside its collectives: memory rates, page faults, malloc and free, child processes.
// Rank 0 measures between collectives, while the other ranks sleep. Prints one line of JSON with the median rate of
// each test.
//
// An ordinary MPI program. Run it natively and offloaded to see the cost of a preloaded and active library.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "fail.h"
#include "harm_tests.hpp"
#include "numbers.h"
#include "turns.hpp"

namespace {

constexpr int kBlockBytes = 256 << 10;
constexpr int kFirstOperations = 10;

struct Options {
  long megabytes = 64;
  long samples = 7;
};

// malloc keeps freed pieces below 32 MiB, so they would not be fresh.
Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (std::strcmp(argv[i], "--megabytes") == 0) {
      options.megabytes = parse_number(argv[i], value, 33, 65536);
    } else if (std::strcmp(argv[i], "--samples") == 0) {
      options.samples = parse_number(argv[i], value, 1, 10000);
    } else {
      fail("unknown option '%s'; there are --megabytes N (of each array) and --samples N (of each test)", argv[i]);
    }
  }
  return options;
}

// The all-to-all between tests. It uses the arrays of the measuring rank, and small ones on the others.
class Collective {
 public:
  Collective(void* send, void* receive) : send_(send), receive_(receive) {}
  void run() const {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoall(send_, kBlockBytes, MPI_BYTE, receive_, kBlockBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

 private:
  void* send_;
  void* receive_;
};

int threads() {
  const std::filesystem::directory_iterator found("/proc/self/task");
  return static_cast<int>(std::distance(begin(found), end(found)));
}

void measure(const Options& options, int ranks, harm::Turns& turns) {
  const std::size_t count = (static_cast<std::size_t>(options.megabytes) << 20) / sizeof(double);
  harm::Arrays arrays{std::vector(count, 1.0), std::vector(count, 2.0), std::vector(count, 3.0)};
  if (static_cast<std::size_t>(ranks) * kBlockBytes > count * sizeof(double)) {
    fail("--megabytes %ld: too few for the blocks of %d ranks", options.megabytes, ranks);
  }
  const Collective collective(arrays.a.data(), arrays.c.data());
  for (int i = 0; i < kFirstOperations; ++i) collective.run();
  std::vector<std::vector<double>> rates(harm::tests().size());
  for (long sample = 0; sample < options.samples; ++sample) {
    for (std::size_t test = 0; test < rates.size(); ++test) {
      collective.run();
      rates[test].push_back(harm::tests()[test].rate(arrays));
      turns.wake_all();
    }
  }
  std::printf(R"({"ranks": %d, "threads": %d, "rates": {)", ranks, threads());
  for (std::size_t test = 0; test < rates.size(); ++test) {
    const harm::Test& what = harm::tests()[test];
    std::printf(R"(%s"%s": {"unit": "%s", "median": %.4f})", test == 0 ? "" : ", ", what.name, what.unit,
                median(rates[test].data(), static_cast<int>(rates[test].size())));
  }
  std::printf("}}\n");
  std::fflush(stdout);
}

void sleep_meanwhile(const Options& options, int ranks, harm::Turns& turns) {
  std::vector<char> send(static_cast<std::size_t>(ranks) * kBlockBytes, 1);
  std::vector<char> receive(send.size(), 0);
  const Collective collective(send.data(), receive.data());
  for (int i = 0; i < kFirstOperations; ++i) collective.run();
  for (long i = 0; i < options.samples * static_cast<long>(harm::tests().size()); ++i) {
    collective.run();
    turns.sleep();
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Options options = parse(argc, argv);
  {
    harm::Turns turns;
    rank == 0 ? measure(options, ranks, turns) : sleep_meanwhile(options, ranks, turns);
  }
  MPI_Finalize();
  return 0;
}
