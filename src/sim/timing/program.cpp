#include "sim/timing/program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fabric/sim/random.hpp"
#include "sim/timing/computation.hpp"

namespace outrigger::sim::timing {
namespace {

constexpr std::uint64_t kApart_ns = 10;  // pause between rounds

class Program {
 public:
  Program(model::Machine& machine, Side& side, const Rounds& rounds)
      : machine_(machine), side_(side), rounds_(rounds), ranks_(machine.places.ranks()) {
    side_.ended = [this](std::uint32_t rank, std::uint32_t /*request*/) { ended(rank); };
  }

  Result<RoundTimes> run() {
    begin_round();
    std::uint64_t events = 0;
    while (machine_.time.step()) {
      if (++events > rounds_.most_events) return Error{"the run has too many events; use fewer ranks"};
    }
    if (times_.total_ns.size() != rounds_.count) return Error{"the collective does not end"};
    return times_;
  }

 private:
  struct Rank {
    std::uint64_t begun_ns = 0;
    std::uint64_t work_ns = 0;
    std::uint64_t posted_ns = 0;
    std::uint64_t waits_since_ns = 0;
    bool over = false;  // its operation has ended
    bool waits = false;
  };

  // The same for both sides and in any order of events.
  [[nodiscard]] fabric::sim::Random chance(std::uint32_t rank) const {
    const std::uint64_t round = times_.total_ns.size();
    return fabric::sim::Random(fabric::sim::Random::mix(rounds_.seed ^ (round << 32U)) ^ rank);
  }

  // Ranks poll in turn whether all have arrived, as in orbench, in a random order.
  void enter_barrier() {
    std::vector<std::uint32_t> order(ranks_.size());
    std::iota(order.begin(), order.end(), 0U);
    chance(static_cast<std::uint32_t>(ranks_.size())).shuffle(order);
    for (const std::uint32_t rank : order) be_in_barrier(rank, true);
  }
  void leave_barrier() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) be_in_barrier(rank, false);
  }

  void begin_round() {
    enter_barrier();
    begun_ns_ = std::numeric_limits<std::uint64_t>::max();
    left_ = ranks_.size();
    in_mpi_ns_ = 0;
    std::uint64_t alone_ns = 0;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      fabric::sim::Random random = chance(rank);
      const std::uint64_t skew_ns = random.within({0, machine_.cluster.noise.skew_ns});
      const double even = (static_cast<double>(random.below(1U << 30U)) + 1) / (1U << 30U);
      const double noise = 1 - machine_.cluster.noise.work * std::log(even);  // exponential
      ranks_[rank] = Rank();
      ranks_[rank].work_ns = static_cast<std::uint64_t>(static_cast<double>(rounds_.work_ns) * noise);
      alone_ns = std::max(alone_ns, skew_ns + ranks_[rank].work_ns);
      machine_.time.after(skew_ns, [this, rank] { begin(rank); });
    }
    alone_ns_ = alone_ns;
  }

  // Time for the links to rest, as during orbench's agreement on the start.
  [[nodiscard]] std::uint64_t rest_ns() const {
    const model::NetworkModel& network = machine_.cluster.network;
    return static_cast<std::uint64_t>(static_cast<double>(network.burst_bytes) / network.link_bytes_per_s * 1e9);
  }

  void be_in_barrier(std::uint32_t rank, bool inside) {
    machine_.core_of_rank(rank).poll(model::Machine::process_of_rank(rank), inside);
  }

  void begin(std::uint32_t rank) {
    machine_.core_of_rank(rank).run(model::Machine::process_of_rank(rank), 0, [this, rank] {
      be_in_barrier(rank, false);
      post(rank);
    });
  }

  void post(std::uint32_t rank) {
    ranks_[rank].begun_ns = machine_.time.now_ns();
    begun_ns_ = std::min(begun_ns_, ranks_[rank].begun_ns);
    side_.post(rank, 0, 0, [this, rank] { compute(rank); });
  }

  void compute(std::uint32_t rank) {
    Rank& state = ranks_[rank];
    state.posted_ns = machine_.time.now_ns();
    if (state.work_ns == 0) return wait(rank);
    Computation(machine_).run(rank, state.work_ns, [this, rank] { wait(rank); });
  }

  void wait(std::uint32_t rank) {
    ranks_[rank].waits = true;
    ranks_[rank].waits_since_ns = machine_.time.now_ns();
    if (ranks_[rank].over) return leave(rank);
    side_.wait(rank, true);
  }

  void ended(std::uint32_t rank) {
    ranks_[rank].over = true;
    if (ranks_[rank].waits) leave(rank);
  }

  void leave(std::uint32_t rank) {
    side_.wait(rank, false);
    be_in_barrier(rank, true);
    const Rank& state = ranks_[rank];
    const std::uint64_t now_ns = machine_.time.now_ns();
    in_mpi_ns_ += static_cast<double>(now_ns - state.waits_since_ns + state.posted_ns - state.begun_ns);
    if (--left_ != 0) return;
    times_.in_mpi_ns.push_back(in_mpi_ns_ / static_cast<double>(ranks_.size()));
    times_.work_alone_ns.push_back(alone_ns_);
    times_.total_ns.push_back(now_ns - begun_ns_);
    leave_barrier();
    if (times_.total_ns.size() != rounds_.count) machine_.time.after(rest_ns() + kApart_ns, [this] { begin_round(); });
  }

  model::Machine& machine_;
  Side& side_;
  Rounds rounds_;
  std::vector<Rank> ranks_;
  RoundTimes times_;
  std::uint64_t begun_ns_ = 0;  // begin of this round, by its first rank
  std::uint64_t alone_ns_ = 0;
  std::size_t left_ = 0;
  double in_mpi_ns_ = 0;
};

}  // namespace

Result<RoundTimes> run_rounds(model::Machine& machine, Side& side, const Rounds& rounds) {
  return Program(machine, side, rounds).run();
}

}  // namespace outrigger::sim::timing
