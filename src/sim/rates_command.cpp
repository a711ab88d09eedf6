#include "sim/rates_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "sim/rates.hpp"

namespace outrigger::sim {

RatesCommand::RatesCommand(CLI::App& parent) {
  command_ = parent.add_subcommand(
      "rates", "Measure how fast this machine's cores copy and reduce, in bytes a second (for outrigger calibrate).");
  command_->add_option("--samples", samples_, "of each")->check(CLI::Range(1U, 10'000U))->capture_default_str();
}

bool RatesCommand::chosen() const {
  return command_->parsed();
}

int RatesCommand::run() const {
  const Rates rates = measure_rates(samples_);
  nlohmann::json by_bytes = nlohmann::json::array();
  for (const CopyRates& copies : rates.by_bytes) {
    by_bytes.push_back({{"bytes", copies.bytes}, {"samples", copies.samples}});
  }
  const nlohmann::json line = {
      {"copy", rates.copy}, {"reduce", rates.reduce}, {"memory", rates.memory}, {"by_bytes", by_bytes}};
  fmt::print("{}\n", line.dump());
  return 0;
}

}  // namespace outrigger::sim
