// Tests that offloaded neighbor collectives put the same bytes in the same places as the native MPI, and change no
// others. A seed draws the topologies: grids, graphs and distributed graphs, with parallel edges, self edges, borders
// and ranks without neighbors. It also draws calls and their forms, datatypes, displacements, buffers and completion
// calls. Several operations are outstanding, in each rank's own order. Expected bytes are sent as packed messages, and
// placed where the same form puts small blocks natively on a communicator with info outrigger=off. Whole buffers are
// compared.
//
//   neighbors [--seed S] [--operations N] [--max-bytes B] [--blocking 1] [--persistent N] [--spoil 1] [--careful 1]
//
// --careful 1 avoids an error of native MPICH 4.0: its MPI_Ineighbor_alltoallw receives as many blocks as it sends.
// --blocking 1: blocking forms, in sequence. --persistent N: persistent forms, if the MPI has them, each started N
// times more. --spoil 1 changes a byte, to test the comparison.

#include <mpi.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../differential/completion.hpp"
#include "../programs/persistent_calls.hpp"
#include "exchange.hpp"
#include "topologies.hpp"

namespace neighbors {
namespace {

using differential::mix;
using differential::Random;

constexpr int windows_per_epoch = 6;
constexpr int most_outstanding = 8;

struct Options {
  std::uint64_t seed = 1;
  int operations = 200;
  std::int64_t max_bytes = 1 << 20;
  bool blocking = false;
  int persistent = -1;
  bool spoil = false;
  bool careful = false;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long long value = std::atoll(argv[i + 1]);
    if (name == "--seed") options.seed = static_cast<std::uint64_t>(value);
    if (name == "--operations") options.operations = static_cast<int>(value);
    if (name == "--max-bytes") options.max_bytes = value;
    if (name == "--blocking") options.blocking = value != 0;
    if (name == "--persistent") options.persistent = static_cast<int>(value);
    if (name == "--spoil") options.spoil = value != 0;
    if (name == "--careful") options.careful = value != 0;
  }
  return options;
}

class Test {
 public:
  explicit Test(const Options& options) : options_(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  // Runs operations and returns their number; all ranks get the same result.
  int run() {
    int operations = 0;
    for (int window = 0; operations < options_.operations && !bad_; ++window) {
      if (window % windows_per_epoch == 0) {
        topologies_.reset();
        const auto epoch = static_cast<std::uint64_t>(window / windows_per_epoch);
        topologies_ = std::make_unique<Topologies>(MPI_COMM_WORLD, Random(mix({options_.seed, 3, epoch})));
      }
      operations += run_window(window);
      bad_ = any_bad();
    }
    topologies_.reset();
    return operations;
  }
  [[nodiscard]] bool good() const { return !bad_; }

 private:
  struct Planned {
    std::unique_ptr<Exchange> exchange;
    Form form = Form::nonblocking;
    MPI_Request kept = MPI_REQUEST_NULL;  // of a persistent one
  };

  [[nodiscard]] bool any_bad() const {
    const int here = bad_ ? 1 : 0;
    int anywhere = 0;
    MPI_Request request;
    MPI_Iallreduce(&here, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    wait_patiently(&request);
    return anywhere != 0;
  }

  [[nodiscard]] Form some_form(Random& random) const {
    if (options_.persistent >= 0) return Form::persistent;
    if (options_.blocking) return Form::blocking;
    return random.chance(30) ? Form::large : Form::nonblocking;
  }

  int run_window(int number) {
    window_ = number;
    Random random(mix({options_.seed, 1, static_cast<std::uint64_t>(number)}));
    Random own(mix({options_.seed, 2, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(rank_)}));
    const int operations = random.between(1, most_outstanding);
    std::vector<Planned> planned;
    std::vector<std::vector<std::size_t>> on(topologies_->all().size());
    for (int i = 0; i < operations; ++i) {
      const auto which = static_cast<std::size_t>(random.below(static_cast<int>(on.size())));
      const Topology& topology = topologies_->all()[which];
      const Plan plan = Plan::make(random.next(), options_.max_bytes, options_.careful);
      Form form = some_form(random);
      if (topology.offloaded == MPI_COMM_NULL) continue;
      // In a group of one, which is native, MPICH 4.0 returns finished persistent requests again.
      if (form == Form::persistent && topology.size == 1) form = Form::nonblocking;
      on[which].push_back(planned.size());
      planned.push_back({std::make_unique<Exchange>(plan, topology), form});
    }
    post_in_any_order(planned, on, own);
    for (Planned& operation : planned) operation.exchange->expect(operation.form);
    if (options_.spoil && !planned.empty()) planned.front().exchange->spoil();
    for (Planned& operation : planned) check(operation, "");
    for (Planned& operation : planned) start_again(operation);
    return operations;
  }

  // Those on one communicator stay in order.
  void post_in_any_order(std::vector<Planned>& planned, const std::vector<std::vector<std::size_t>>& on, Random& own) {
    std::vector<MPI_Request> requests(planned.size(), MPI_REQUEST_NULL);
    std::vector<bool> active(planned.size(), false);
    std::vector<std::size_t> next(on.size(), 0);
    for (std::size_t posted = 0; posted < planned.size();) {
      // Blocking ones of different communicators, in different orders, would deadlock.
      const auto which = options_.blocking ? 0 : static_cast<std::size_t>(own.below(static_cast<int>(on.size())));
      std::size_t index = posted;
      if (!options_.blocking) {
        if (next[which] == on[which].size()) continue;
        index = on[which][next[which]++];
      }
      Planned& operation = planned[index];
      operation.exchange->run(operation.form, &requests[index]);
      if (operation.form == Form::persistent) operation.kept = requests[index];
      active[index] = operation.form != Form::blocking;
      ++posted;
      if (own.chance(10)) differential::poke(requests, active, own, [](std::size_t, const MPI_Status*) {});
    }
    differential::complete(requests, active, own, [](std::size_t, const MPI_Status*) {});
  }

  void start_again(Planned& operation) {
    if (operation.form != Form::persistent) return;
    for (int i = 0; i < options_.persistent; ++i) {
      operation.exchange->forget();
      MPI_Start(&operation.kept);
      wait_patiently(&operation.kept);
      check(operation, "another start of ");
    }
    MPI_Request_free(&operation.kept);
  }

  void check(const Planned& operation, const char* how) {
    const std::optional<std::string> difference = operation.exchange->difference();
    if (!difference) return;
    bad_ = true;
    std::fprintf(stderr, "neighbors: DIFFERENCE on rank %d, seed %" PRIu64 ", window %d: %s%s\n  %s   (%d ranks)\n",
                 rank_, options_.seed, window_, how, operation.exchange->describe(operation.form).c_str(),
                 difference->c_str(), size_);
    std::fflush(stderr);
  }

  Options options_;
  int rank_ = 0;
  int size_ = 0;
  int window_ = 0;
  bool bad_ = false;
  std::unique_ptr<Topologies> topologies_;
};

int run(const Options& options) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (options.persistent >= 0 && !persistent::calls().there()) {
    if (rank == 0) std::printf("neighbors: no persistent forms\n");
    return 0;
  }
  Test test(options);
  const int operations = test.run();
  if (rank == 0) {
    std::printf("neighbors: seed %" PRIu64 ", %d operations: %s\n", options.seed, operations,
                test.good() ? "no difference" : "DIFFERENT");
  }
  return test.good() ? 0 : 1;
}

}  // namespace
}  // namespace neighbors

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int bad = neighbors::run(neighbors::read_options(argc, argv));
  MPI_Finalize();
  return bad;
}
