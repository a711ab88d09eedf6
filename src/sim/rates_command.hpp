// outrigger-sim rates: the command line of measure_rates(), for `outrigger lab calibrate`.
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace outrigger::sim {

class RatesCommand {
 public:
  explicit RatesCommand(CLI::App& parent);
  RatesCommand(const RatesCommand&) = delete;
  RatesCommand& operator=(const RatesCommand&) = delete;

  [[nodiscard]] bool chosen() const;
  // Prints a line of JSON. Returns the exit status of the program.
  [[nodiscard]] int run() const;

 private:
  std::uint32_t samples_ = 11;
  CLI::App* command_;
};

}  // namespace outrigger::sim
