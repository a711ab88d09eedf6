// Microseconds per blocking collective of src/intranode, by processes bound to cores, with buffers written anew before
// each call.
//
//     intranode_benchmark RANKS[/TOGETHER] [MOST_BYTES [COLLECTIVE...]]
//
// With TOGETHER short calls are done in two levels: in branches of so many ranks in a row.
// Each figure is the mean over ranks of a rank's median. A barrier precedes each call. Bytes are of a rank's block.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/tick_clock.hpp"
#include "intranode/team.hpp"

namespace outrigger::intranode {
namespace {

struct Buffers {
  std::vector<std::byte> from;
  std::vector<std::byte> into;
};
struct Case {
  std::string name;
  std::function<Outcome(Team&, Buffers&, std::uint64_t bytes)> call;
};

const Reduction kSum{ReduceOperation::sum, ElementType::float64};

// A sum in an order that many MPIs have. It does not move: the order is its own.
struct Sum {
  explicit Sum(const Team& team) : order(SumTree::balanced(team.size())), combine(kSum, order) {}
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;
  SumOrder order;
  OrderCombine combine;
};

const Combine& sum_of(std::shared_ptr<Sum>& known, const Team& team) {
  if (!known) known = std::make_shared<Sum>(team);
  return known->combine;
}

std::vector<Case> cases() {
  const auto part = [](std::vector<std::byte>& memory, std::uint64_t bytes) { return std::span(memory).first(bytes); };
  return {
      {"barrier", [](Team& team, Buffers&, std::uint64_t) { return team.barrier(); }},
      {"bcast", [=](Team& team, Buffers& b, std::uint64_t n) { return team.broadcast(part(b.from, n), 0); }},
      {"allreduce",
       [=, sum = std::shared_ptr<Sum>()](Team& team, Buffers& b, std::uint64_t n) mutable {
         return team.allreduce(part(b.from, n), b.into.data(), sum_of(sum, team));
       }},
      {"alltoall",
       [](Team& team, Buffers& b, std::uint64_t n) {
         return team.alltoall(Blocks::regular(b.from.data(), n), Blocks::regular(b.into.data(), n));
       }},
      {"allgather",
       [=](Team& team, Buffers& b, std::uint64_t n) {
         return team.allgather(part(b.from, n), Blocks::regular(b.into.data(), n));
       }},
      {"gather", [=](Team& team, Buffers& b,
                     std::uint64_t n) { return team.gather(part(b.from, n), Blocks::regular(b.into.data(), n), 0); }},
      {"scatter", [=](Team& team, Buffers& b,
                      std::uint64_t n) { return team.scatter(Blocks::regular(b.from.data(), n), part(b.into, n), 0); }},
      {"reduce",
       [=, sum = std::shared_ptr<Sum>()](Team& team, Buffers& b, std::uint64_t n) mutable {
         return team.reduce(part(b.from, n), b.into.data(), sum_of(sum, team), 0);
       }},
      {"reduce_scatter",
       [=, sum = std::shared_ptr<Sum>()](Team& team, Buffers& b, std::uint64_t n) mutable {
         const std::vector<std::uint64_t> bytes(team.size(), n);
         return team.reduce_scatter(b.from.data(), bytes, b.into.data(), sum_of(sum, team));
       }},
  };
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Medians of all ranks, in memory that they share.
void measure(Team& team, const Case& what, std::uint64_t bytes, Buffers& buffers, double* medians) {
  const int calls = bytes > 100'000 ? 200 : 2000;
  std::vector<double> times;
  for (int call = -50; call < calls; ++call) {
    const std::uint64_t touched = std::min<std::uint64_t>(buffers.from.size(), bytes * team.size());
    for (std::uint64_t i = 0; i < touched; i += 64) buffers.from[i] = static_cast<std::byte>(call);
    if (team.barrier() != Outcome::done) std::abort();
    const std::int64_t start = TickClock::now_ns();
    if (what.call(team, buffers, bytes) != Outcome::done) std::abort();
    if (call >= 0) times.push_back(static_cast<double>(TickClock::now_ns() - start) / 1e3);
  }
  medians[team.rank()] = median(times);
  if (team.barrier() != Outcome::done) std::abort();
  if (team.rank() != 0) return;
  double sum = 0;
  for (std::uint32_t rank = 0; rank < team.size(); ++rank) sum += medians[rank];
  std::printf("%-15s %8llu bytes %10.2f us\n", what.name.c_str(), static_cast<unsigned long long>(bytes),
              sum / team.size());
  std::fflush(stdout);
}

struct Ranks {
  std::uint32_t size;
  std::uint32_t together;  // 0: one level
};

int run_rank(int fd, std::uint32_t rank, const Ranks& ranks, std::uint64_t most, const std::vector<std::string>& names,
             double* medians) {
  const std::uint32_t size = ranks.size;
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank % static_cast<std::uint32_t>(cores), &core);
  (void)::sched_setaffinity(0, sizeof core, &core);
  Result<ControlArea> area = ControlArea::attach(fd, size);
  if (!area) {
    std::fprintf(stderr, "%s\n", area.error().c_str());
    return 1;
  }
  Waiter waiter(size <= cores ? WaitPolicy::own_core() : WaitPolicy::shared_core());
  Team team(std::move(area).value(), rank, waiter);
  if (ranks.together != 0) team.divide(Branches::in_a_row(size, ranks.together));
  if (team.open() != Outcome::done) return 1;
  Buffers buffers{std::vector<std::byte>(most * size), std::vector<std::byte>(most * size)};
  for (const Case& what : cases()) {
    if (!names.empty() && std::find(names.begin(), names.end(), what.name) == names.end()) continue;
    if (what.name == "barrier") {
      measure(team, what, 0, buffers, medians);
      continue;
    }
    for (std::uint64_t bytes = 8; bytes <= most; bytes *= bytes < 1024 ? 8 : 4) {
      measure(team, what, bytes, buffers, medians);
    }
  }
  return 0;
}

int run(const Ranks& ranks, std::uint64_t most, const std::vector<std::string>& names) {
  Result<UniqueFd> fd = ControlArea::create(ranks.size);
  if (!fd) {
    std::fprintf(stderr, "%s\n", fd.error().c_str());
    return 1;
  }
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  for (std::uint32_t rank = 0; rank < ranks.size; ++rank) {
    if (::fork() == 0) ::_exit(run_rank(fd.value().get(), rank, ranks, most, names, static_cast<double*>(shared)));
  }
  int result = 0;
  for (int status = 0; ::wait(&status) > 0;) result |= status;
  return result == 0 ? 0 : 1;
}

}  // namespace
}  // namespace outrigger::intranode

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.empty()) {
    std::fprintf(stderr, "usage: %s RANKS[/TOGETHER] [MOST_BYTES [COLLECTIVE...]]\n", values[0]);
    return 2;
  }
  const auto number = [](const std::string& text) { return static_cast<std::uint32_t>(std::stoul(text)); };
  const std::size_t slash = arguments[0].find('/');
  const outrigger::intranode::Ranks ranks{number(arguments[0]),
                                          slash == std::string::npos ? 0 : number(arguments[0].substr(slash + 1))};
  const std::uint64_t most = arguments.size() > 1 ? std::stoull(arguments[1]) : 4 << 20;
  return outrigger::intranode::run(ranks, most, {arguments.begin() + (arguments.size() > 1 ? 2 : 1), arguments.end()});
}
