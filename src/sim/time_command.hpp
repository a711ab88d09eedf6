// outrigger-sim time: the command line of run_experiment().
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace outrigger::sim {

class TimeCommand {
 public:
  explicit TimeCommand(CLI::App& parent);
  ~TimeCommand();
  TimeCommand(const TimeCommand&) = delete;
  TimeCommand& operator=(const TimeCommand&) = delete;

  [[nodiscard]] bool chosen() const;
  // Prints the figures. Returns the exit status of the program.
  [[nodiscard]] int run() const;

 private:
  struct Arguments;
  std::unique_ptr<Arguments> arguments_;
  CLI::App* command_;
};

}  // namespace outrigger::sim
