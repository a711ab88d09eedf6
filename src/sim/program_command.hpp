// `outrigger-sim program`: predicts the times of a program's steps on a modelled cluster, run in several ways.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace outrigger::sim {

class ProgramCommand {
 public:
  explicit ProgramCommand(CLI::App& parent);
  ~ProgramCommand();
  ProgramCommand(const ProgramCommand&) = delete;
  ProgramCommand& operator=(const ProgramCommand&) = delete;

  [[nodiscard]] bool chosen() const;
  // Prints the result. Returns the exit status of the program.
  [[nodiscard]] int run() const;

 private:
  struct Arguments;
  std::unique_ptr<Arguments> arguments_;
  CLI::App* command_ = nullptr;
};

}  // namespace outrigger::sim
