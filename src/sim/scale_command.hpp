// outrigger-sim scale: the command line of count_scale() and count_whole_job().
#pragma once

#include <memory>

#include "protocol/collective.hpp"

namespace CLI {
class App;
}

namespace outrigger::sim {

class ScaleCommand {
 public:
  explicit ScaleCommand(CLI::App& parent);
  ~ScaleCommand();
  ScaleCommand(const ScaleCommand&) = delete;
  ScaleCommand& operator=(const ScaleCommand&) = delete;

  [[nodiscard]] bool chosen() const;
  // Prints the figures. Returns the exit status of the program.
  [[nodiscard]] int run() const;

 private:
  [[nodiscard]] int run_one_service() const;
  [[nodiscard]] int run_whole_job(Collective collective) const;

  struct Arguments;
  std::unique_ptr<Arguments> arguments_;
  CLI::App* command_;
};

}  // namespace outrigger::sim
