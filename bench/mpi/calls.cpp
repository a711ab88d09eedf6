// Measures calls of a program that offloads nothing: memory, datatypes, attributes, communicators, windows, small
// collectives. Also the duration of MPI_Init, and the open descriptors and memory after it. Prints one line of JSON
// with the median cost of each call on rank 0.
//
// An ordinary MPI program, run natively and with a library preloaded.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "calls_tests.hpp"
#include "fail.h"
#include "numbers.h"

namespace {

using Clock = std::chrono::steady_clock;

long parse_samples(int argc, char** argv) {
  if (argc == 1) return 31;
  if (argc == 3 && std::strcmp(argv[1], "--samples") == 0) return parse_number(argv[1], argv[2], 1, 10000);
  fail("unknown option '%s'; there is --samples N (of each test)", argv[1]);
}

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

long open_descriptors() {
  const std::filesystem::directory_iterator found("/proc/self/fd");
  return static_cast<long>(std::distance(begin(found), end(found))) - 1;  // without the directory itself
}

long resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    long kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  fail("/proc/self/status does not say how much memory is resident");
}

// Late ranks' delay falls before the sample, not into it.
double sample(const calls::Test& test, calls::Objects& objects) {
  MPI_Barrier(MPI_COMM_WORLD);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < test.calls; ++i) test.call(objects);
  return ns_since(start) / test.calls;
}

double cost(const calls::Test& test, calls::Objects& objects, long samples) {
  sample(test, objects);
  std::vector<double> found;
  for (long i = 0; i < samples; ++i) found.push_back(sample(test, objects));
  return median(found.data(), static_cast<int>(found.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const Clock::time_point start = Clock::now();
  MPI_Init(&argc, &argv);
  const double init_ns = ns_since(start);
  const long descriptors = open_descriptors();
  const long kib = resident_kib();
  const long samples = parse_samples(argc, argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<double> costs;
  {
    calls::Objects objects;
    for (const calls::Test& test : calls::tests()) costs.push_back(cost(test, objects, samples));
  }
  if (rank == 0) {
    std::printf(R"({"ranks": %d, "init_ms": %.3f, "descriptors": %ld, "resident_kib": %ld, "costs_ns": {)", ranks,
                1e-6 * init_ns, descriptors, kib);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      std::printf(R"(%s"%s": %.2f)", i == 0 ? "" : ", ", calls::tests()[i].name, costs[i]);
    }
    std::printf("}}\n");
    std::fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
