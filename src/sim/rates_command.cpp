#include "sim/rates_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/rates.hpp"

namespace outrigger::sim {

RatesCommand::RatesCommand(CLI::App& parent) {
  command_ = parent.add_subcommand(
      "rates",
      "Measure how fast this machine's cores copy and reduce, in bytes per second (for outrigger lab calibrate).");
  command_->add_option("--samples", samples_, "samples of each rate")
      ->check(CLI::Range(1U, 10'000U))
      ->capture_default_str();
}

namespace {

nlohmann::json by_bytes(const std::vector<CopyRates>& copies) {
  nlohmann::json sizes = nlohmann::json::array();
  for (const CopyRates& one : copies) sizes.push_back({{"bytes", one.bytes}, {"samples", one.samples}});
  return sizes;
}

}  // namespace

bool RatesCommand::chosen() const {
  return command_->parsed();
}

int RatesCommand::run() const {
  const Rates rates = measure_rates(samples_);
  const nlohmann::json line = {{"copy", rates.copy},
                               {"reduce", rates.reduce},
                               {"memory", rates.memory},
                               {"by_bytes", by_bytes(rates.by_bytes)},
                               {"kernel", by_bytes(rates.kernel)}};
  fmt::print("{}\n", line.dump());
  return 0;
}

}  // namespace outrigger::sim
