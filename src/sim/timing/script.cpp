#include "sim/timing/script.hpp"

#include <algorithm>
#include <cmath>

#include "fabric/sim/random.hpp"
#include "sim/timing/computation.hpp"

namespace outrigger::sim::timing {
namespace {

using fabric::sim::Random;

class ScriptRun {
 public:
  ScriptRun(model::Machine& machine, Side& side, const Script& script, const ScriptOptions& options)
      : machine_(machine), side_(side), script_(script), options_(options), computation_(machine) {
    for (std::uint32_t rank = 0; rank < script.ranks; ++rank) {
      ranks_.emplace_back(Random(Random::mix(options.seed) ^ rank), script.requests);
    }
    side_.ended = [this](std::uint32_t rank, std::uint32_t request) { ended(rank, request); };
  }

  Result<ScriptTimes> run() {
    for (std::uint32_t rank = 0; rank < script_.ranks; ++rank) {
      const std::uint64_t skew_ns = ranks_[rank].random.within({0, machine_.cluster.noise.skew_ns});
      ranks_[rank].alone_ns = skew_ns;
      machine_.time.after(skew_ns, [this, rank] { go_on(rank); });
    }
    std::uint64_t events = 0;
    while (machine_.time.step()) {
      if (++events > options_.most_events) return Error{"the run has too many events; use fewer ranks"};
    }
    if (finished_ != script_.ranks) return Error{"the program does not end: ranks wait for each other"};
    for (const Rank& rank : ranks_) {
      times_.work_alone_ns = std::max(times_.work_alone_ns, rank.alone_ns);
      times_.in_mpi_ns += static_cast<double>(rank.in_mpi_ns) / static_cast<double>(script_.ranks);
    }
    return times_;
  }

 private:
  struct Rank {
    Rank(Random chance, std::uint32_t requests) : random(chance), open(requests) {}
    Random random;
    std::vector<std::uint8_t> open;  // by request: posted and not ended
    const Wait* waits = nullptr;
    std::size_t step = 0;
    std::uint32_t repetition = 0;
    std::uint64_t entered_ns = 0;  // begin of its current MPI call
    std::uint64_t in_mpi_ns = 0;
    std::uint64_t alone_ns = 0;  // its work so far
  };

  // Runs the next step now.
  void go_on(std::uint32_t rank) {
    Rank& state = ranks_[rank];
    if (state.step == script_.steps.size()) {
      state.step = 0;
      ++state.repetition;
    }
    if (state.repetition == script_.repeat) return finish();
    const Step& step = script_.steps[state.step++];
    if (const Work* const work = std::get_if<Work>(&step)) return compute(rank, work_ns(rank, *work));
    enter(rank);
    if (const Post* const post = std::get_if<Post>(&step)) {
      state.open[post->request] = 1;
      return side_.post(rank, post->call, post->request, [this, rank] { leave(rank); });
    }
    wait(rank, std::get<Wait>(step));
  }

  void finish() {
    times_.total_ns = machine_.time.now_ns();
    ++finished_;
  }

  std::uint64_t work_ns(std::uint32_t rank, const Work& work) {
    Rank& state = ranks_[rank];
    const double even = (static_cast<double>(state.random.below(1U << 30U)) + 1) / (1U << 30U);
    const double noise = 1 - machine_.cluster.noise.work * std::log(even);  // exponential
    const double part = script_.work_of_rank.empty() ? 1 : script_.work_of_rank[rank];
    const auto time_ns =
        static_cast<std::uint64_t>(static_cast<double>(work.time_ns) * options_.work_factor * part * noise);
    state.alone_ns += time_ns;
    return time_ns;
  }

  void compute(std::uint32_t rank, std::uint64_t left_ns) {
    if (left_ns == 0) return go_on(rank);
    const bool tests = options_.test_every_ns != 0 && left_ns > options_.test_every_ns && has_open(rank);
    if (!tests) return computation_.run(rank, left_ns, [this, rank] { go_on(rank); });
    computation_.run(rank, options_.test_every_ns, [this, rank, left_ns] {
      enter(rank);
      side_.test(rank, [this, rank, left_ns] {
        note_left(rank);
        compute(rank, left_ns - options_.test_every_ns);
      });
    });
  }

  [[nodiscard]] bool has_open(std::uint32_t rank) const {
    return std::ranges::any_of(ranks_[rank].open, [](std::uint8_t open) { return open != 0; });
  }

  void wait(std::uint32_t rank, const Wait& wait) {
    ranks_[rank].waits = &wait;
    if (has_all(rank)) return stop_waiting(rank);
    side_.wait(rank, true);
  }

  [[nodiscard]] bool has_all(std::uint32_t rank) const {
    const Rank& state = ranks_[rank];
    return std::ranges::none_of(state.waits->requests, [&](std::uint32_t each) { return state.open[each] != 0; });
  }

  void ended(std::uint32_t rank, std::uint32_t request) {
    ranks_[rank].open[request] = 0;
    if (ranks_[rank].waits == nullptr || !has_all(rank)) return;
    side_.wait(rank, false);
    stop_waiting(rank);
  }

  void stop_waiting(std::uint32_t rank) {
    ranks_[rank].waits = nullptr;
    leave(rank);
  }

  void enter(std::uint32_t rank) { ranks_[rank].entered_ns = machine_.time.now_ns(); }
  void note_left(std::uint32_t rank) { ranks_[rank].in_mpi_ns += machine_.time.now_ns() - ranks_[rank].entered_ns; }
  // No recursion, so that many steps without duration do not overflow the stack.
  void leave(std::uint32_t rank) {
    note_left(rank);
    machine_.time.after(0, [this, rank] { go_on(rank); });
  }

  model::Machine& machine_;
  Side& side_;
  const Script& script_;
  ScriptOptions options_;
  Computation computation_;
  std::vector<Rank> ranks_;
  ScriptTimes times_;
  std::uint32_t finished_ = 0;
};

}  // namespace

Result<ScriptTimes> run_script(model::Machine& machine, Side& side, const Script& script,
                               const ScriptOptions& options) {
  return ScriptRun(machine, side, script, options).run();
}

}  // namespace outrigger::sim::timing
