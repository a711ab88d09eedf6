// Collectives with late ranks: measures how long after the last arrival each rank leaves, and the time that ranks in
// time spend in MPI meanwhile. One line of JSON.
//
// An ordinary MPI program, run natively and offloaded. In each round all ranks start at one time; late ones sleep
// first, by a seeded pattern. Then they call the blocking form, or post, work and wait.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "barrier.h"
#include "fail.h"
#include "neighbors.h"
#include "numbers.h"
#include "probe.h"
#include "skew_pattern.hpp"
#include "work.h"
#include "workload.h"

namespace {

struct Options {
  std::vector<std::string> collectives{"allgatherv", "ialltoallv", "ibcast"};
  long bytes = 256 << 10;
  long rounds = 40;
  long skew_ms = 100;
  long work_ms = 50;
  long seed = 1;
};

// A collective of `workload.h` in the blocking or nonblocking form.
struct Form {
  std::string name;
  Collective collective = kIalltoall;
  bool blocks = false;
};

Form form_of(const std::string& name) {
  for (int collective = kIalltoall; collective < kCollectives; ++collective) {
    const std::string_view nonblocking = collective_name(static_cast<Collective>(collective));
    if (name == nonblocking) return {name, static_cast<Collective>(collective), false};
    if (name == nonblocking.substr(1)) return {name, static_cast<Collective>(collective), true};
  }
  fail("--collectives: '%s' is none that is measured: ialltoall, alltoall, ialltoallv, ... ibcast, bcast",
       name.c_str());
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    found.emplace_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return found;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--collectives") {
      options.collectives = words(value);
    } else if (name == "--bytes") {
      options.bytes = parse_number(argv[i], value, 1, 1L << 28);
    } else if (name == "--rounds") {
      options.rounds = parse_number(argv[i], value, 1, 100000);
    } else if (name == "--skew-ms") {
      options.skew_ms = parse_number(argv[i], value, 1, 10000);
    } else if (name == "--work-ms") {
      options.work_ms = parse_number(argv[i], value, 0, 10000);
    } else if (name == "--seed") {
      options.seed = parse_number(argv[i], value, 0, 1L << 31);
    } else {
      fail("unknown option '%s'; there are --collectives LIST, --bytes, --rounds, --skew-ms, --work-ms, --seed N",
           argv[i]);
    }
  }
  return options;
}

// Offset of this rank's clock from rank 0's, in seconds: from the fastest of many exchanges, assuming that its answer
// was written halfway.
double clock_offset(int rank, int ranks) {
  constexpr int kExchanges = 50;
  if (barrier_one_clock()) return 0;
  double offset = 0;
  for (int other = 1; other < ranks; ++other) {
    double fastest = 1e9;
    for (int i = 0; i < kExchanges; ++i) {
      double there = 0;
      if (rank == 0) {
        MPI_Recv(nullptr, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        there = now_s();
        MPI_Send(&there, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
      } else if (rank == other) {
        const double before = now_s();
        MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(&there, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const double after = now_s();
        if (after - before < fastest) {
          fastest = after - before;
          offset = there - (before + after) / 2;
        }
      }
    }
  }
  return offset;
}

// One rank in one round. Times are of rank 0's clock.
struct Visit {
  double arrived_s = 0;
  double worked_s = 0;  // end of its own work
  double left_s = 0;
  double in_mpi_s = 0;
};
constexpr int kVisitDoubles = 4;
static_assert(sizeof(Visit) == kVisitDoubles * sizeof(double));

Visit visit(const Form& form, const Workload& workload, MPI_Comm comm, std::uint64_t work_iterations, double offset_s) {
  const double arrived = now_s();
  double worked = arrived;
  double waited = arrived;
  if (form.blocks) {
    workload_run(&workload, comm);
  } else {
    MPI_Request request = MPI_REQUEST_NULL;
    workload_post(&workload, comm, &request);
    const double posted = now_s();
    work(work_iterations);
    worked = now_s();
    waited = worked - (posted - arrived);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  const double left = now_s();
  return {arrived + offset_s, worked + offset_s, left + offset_s, left - waited};
}

// One value per round; results are their medians.
struct Figures {
  std::vector<double> left_mean_ms;    // after the last arrival and the own work, mean of the ranks
  std::vector<double> left_last_ms;    // of the last rank
  std::vector<double> on_time_mpi_ms;  // in MPI, mean of the ranks in time
};

Figures figures_of(const std::vector<Visit>& visits, const std::vector<std::vector<double>>& lateness_ms) {
  Figures figures;
  const std::size_t rounds = lateness_ms.size();
  const std::size_t ranks = lateness_ms.front().size();
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto of = [&](std::size_t rank) -> const Visit& { return visits[rank * rounds + round]; };
    double last_arrival = of(0).arrived_s;
    for (std::size_t rank = 1; rank < ranks; ++rank) last_arrival = std::max(last_arrival, of(rank).arrived_s);
    double sum = 0;
    double last = -1e9;
    double in_mpi = 0;
    double on_time = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double after = (of(rank).left_s - std::max(last_arrival, of(rank).worked_s)) * 1e3;
      sum += after;
      last = std::max(last, after);
      if (lateness_ms[round][rank] > 0) continue;
      in_mpi += of(rank).in_mpi_s * 1e3;
      on_time += 1;
    }
    figures.left_mean_ms.push_back(sum / static_cast<double>(ranks));
    figures.left_last_ms.push_back(last);
    figures.on_time_mpi_ms.push_back(in_mpi / on_time);
  }
  return figures;
}

class Bench {
 public:
  Bench(const Options& options, int rank, int ranks)
      : options_(options),
        rank_(rank),
        ranks_(ranks),
        offset_s_(clock_offset(rank, ranks)),
        grid_(grid_open(MPI_COMM_WORLD)) {
    work_iterations_ = options.work_ms == 0 ? 0 : work_lasting(static_cast<double>(options.work_ms) * 1e3);
  }
  ~Bench() { MPI_Comm_free(&grid_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void measure(const Form& form, bool first) {
    Workload workload;
    MPI_Comm comm = comm_of(form);
    workload_open(&workload, comm, form.collective, kMalloc, static_cast<int>(options_.bytes));
    workload_validate(&workload, comm, "", static_cast<unsigned>(options_.seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(options_.seed));
    std::vector<std::vector<double>> lateness_ms;
    std::vector<Visit> mine;
    run_round(form, workload, 0);  // warm-up
    for (long round = 0; round < options_.rounds; ++round) {
      lateness_ms.push_back(skew::draw_lateness(random, ranks_, static_cast<double>(options_.skew_ms)));
      mine.push_back(run_round(form, workload, lateness_ms.back()[static_cast<std::size_t>(rank_)]));
    }
    workload_close(&workload);
    const int doubles = static_cast<int>(options_.rounds) * kVisitDoubles;
    std::vector<Visit> all(rank_ == 0 ? mine.size() * static_cast<std::size_t>(ranks_) : 0);
    MPI_Gather(mine.data(), doubles, MPI_DOUBLE, all.data(), doubles, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank_ == 0) print(form, figures_of(all, lateness_ms), first);
  }

 private:
  [[nodiscard]] MPI_Comm comm_of(const Form& form) const {
    return is_of_neighbors(form.collective) ? grid_ : MPI_COMM_WORLD;
  }
  Visit run_round(const Form& form, const Workload& workload, double late_ms) const {
    barrier();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(late_ms));
    return visit(form, workload, comm_of(form), work_iterations_, offset_s_);
  }

  static double middle(std::vector<double>& values) { return median(values.data(), static_cast<int>(values.size())); }
  static void print(const Form& form, Figures figures, bool first) {
    std::printf(R"(%s"%s": {"left_mean_ms": %.4f, "left_last_ms": %.4f, "on_time_mpi_ms": %.4f})", first ? "" : ", ",
                form.name.c_str(), middle(figures.left_mean_ms), middle(figures.left_last_ms),
                middle(figures.on_time_mpi_ms));
  }

  Options options_;
  int rank_;
  int ranks_;
  double offset_s_;
  MPI_Comm grid_;
  std::uint64_t work_iterations_ = 0;
};

void run(const Options& options) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) fail("nobody is late among %d ranks: start 2 or more", ranks);
  if (options.bytes * ranks > 1L << 30) fail("--bytes %ld: too many for %d ranks", options.bytes, ranks);
  std::vector<Form> forms;
  for (const std::string& name : options.collectives) forms.push_back(form_of(name));
  barrier_open(MPI_COMM_WORLD);
  Bench bench(options, rank, ranks);
  if (rank == 0) std::printf(R"({"ranks": %d, "collectives": {)", ranks);
  for (std::size_t i = 0; i < forms.size(); ++i) bench.measure(forms[i], i == 0);
  if (rank == 0) std::printf("}}\n");
  std::fflush(stdout);
  barrier_close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  run(parse(argc, argv));
  MPI_Finalize();
  return 0;
}
