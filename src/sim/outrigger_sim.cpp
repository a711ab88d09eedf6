// outrigger-sim: checks many random schedules of the real engine in virtual time, counts the cost of an operation at
// scale, and predicts its time on a modelled cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "sim/program_command.hpp"
#include "sim/rates_command.hpp"
#include "sim/scale_command.hpp"
#include "sim/simulation.hpp"
#include "sim/time_command.hpp"

namespace {

using outrigger::Algorithm;
using outrigger::sim::SimulationOptions;
using outrigger::sim::SimulationResult;

constexpr int kInterrupted = 130;  // as shells report it

// Ctrl-C: stop after the current schedule.
volatile std::sig_atomic_t interrupted = 0;

struct Arguments {
  std::uint64_t seeds = 1000;
  std::uint64_t first_seed = 1;
  std::uint64_t seed = 0;
  std::string algorithm = "all";
  std::string faults = "all";
  bool trace = false;
  bool quiet = false;
};

outrigger::fabric::sim::FaultOptions faults_named(const std::string& name) {
  if (name == "none") return outrigger::fabric::sim::no_faults();
  if (name == "delays") return outrigger::fabric::sim::delays();
  if (name == "crashes") return outrigger::fabric::sim::crashes();
  if (name == "losses") return outrigger::fabric::sim::losses();
  if (name == "everything") return outrigger::fabric::sim::all_and_losses();
  return outrigger::fabric::sim::all_faults();
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names{"all"};
  for (const outrigger::AlgorithmName& known : outrigger::kAlgorithms) names.emplace_back(known.name);
  return names;
}

struct Totals {
  std::uint64_t operations = 0;
  std::uint64_t messages = 0;
  std::uint64_t crashes = 0;
  std::uint64_t losses = 0;
  std::uint64_t replayed = 0;
};

bool run_seed(const Arguments& arguments, Algorithm algorithm, std::uint64_t seed, Totals& totals) {
  SimulationOptions options;
  options.seed = seed;
  options.algorithm = algorithm;
  options.faults = faults_named(arguments.faults);
  options.trace = arguments.trace;
  const SimulationResult result = outrigger::sim::simulate(options);
  totals.operations += result.operations;
  totals.messages += result.messages;
  totals.crashes += result.crashes;
  totals.losses += result.losses;
  totals.replayed += result.replayed_posts;
  if (!result.broken) return true;
  fmt::print("\nbroken invariant: {}\n  {} with seed {} at {} ns\n", *result.broken, name_of(algorithm), seed,
             result.virtual_ns);
  fmt::print("replay: outrigger-sim --algorithm {} --faults {} --seed {} --trace\n", name_of(algorithm),
             arguments.faults, seed);
  return false;
}

bool run_many(const Arguments& arguments, Algorithm algorithm) {
  const bool terminal = isatty(STDOUT_FILENO) != 0 && !arguments.quiet;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Totals totals;
  std::uint64_t done = 0;
  while (done < arguments.seeds && interrupted == 0) {
    if (!run_seed(arguments, algorithm, arguments.first_seed + done, totals)) return false;
    ++done;
    if (terminal && done % 100 == 0) {
      const double left_s = seconds() / static_cast<double>(done) * static_cast<double>(arguments.seeds - done);
      fmt::print("\r{:<13} {:>7} of {} schedules, {:.0f} s left ", name_of(algorithm), done, arguments.seeds, left_s);
      std::fflush(stdout);
    }
  }
  fmt::print(
      "{}{:<13} {} schedules, faults {}: every invariant held ({} completions, {} messages, {} crashes, {} ranks "
      "lost, {} posts replayed, {:.1f} s)\n",
      terminal ? "\r" : "", name_of(algorithm), done, arguments.faults, totals.operations, totals.messages,
      totals.crashes, totals.losses, totals.replayed, seconds());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs the engine in virtual time on random small jobs and checks its invariants after every step."};
  Arguments arguments;
  app.set_version_flag("--version", "outrigger-sim " OUTRIGGER_VERSION);
  app.add_option("--seeds", arguments.seeds, "number of random schedules")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--first-seed", arguments.first_seed, "seed of the first one")->capture_default_str();
  auto* one = app.add_option("--seed", arguments.seed, "run only this one");
  app.add_option("--algorithm", arguments.algorithm, "use only this algorithm")
      ->check(CLI::IsMember(algorithm_names()))
      ->capture_default_str();
  app.add_option("--faults", arguments.faults, "faults to inject")
      ->check(CLI::IsMember({"none", "delays", "crashes", "all", "losses", "everything"}))
      ->capture_default_str();
  app.add_flag("--trace", arguments.trace, "print every event on a line")->needs(one);
  app.add_flag("--quiet", arguments.quiet, "no progress line");
  const outrigger::sim::ScaleCommand scale(app);
  const outrigger::sim::TimeCommand time(app);
  const outrigger::sim::ProgramCommand program(app);
  const outrigger::sim::RatesCommand rates(app);
  CLI11_PARSE(app, argc, argv);
  if (scale.chosen()) return scale.run();
  if (time.chosen()) return time.run();
  if (program.chosen()) return program.run();
  if (rates.chosen()) return rates.run();
  if (one->count() != 0) {
    arguments.first_seed = arguments.seed;
    arguments.seeds = 1;
  }
  (void)std::signal(SIGINT, [](int) { interrupted = 1; });
  for (const outrigger::AlgorithmName& known : outrigger::kAlgorithms) {
    if (interrupted != 0) break;
    if (arguments.algorithm != "all" && arguments.algorithm != known.name) continue;
    if (!run_many(arguments, known.algorithm)) return 1;
  }
  if (interrupted == 0) return 0;
  fmt::print("Interrupted: only the schedules so far.\n");
  return kInterrupted;
}
