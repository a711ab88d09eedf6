// Decisions of earlier runs (steer/plan/decision.hpp), kept in the user's cache directory (base/line_cache.hpp), with a
// line for each kind of call on each shape of communicator. They are for the same program in the same placement:
// another program computes at other times. The first rank of a communicator reads the file at first use, and adds to it
// at the end of the job. Nothing is kept for v-forms, whose kinds do not tell sizes apart: another input has other
// ones.
//
//   outrigger-choices 4
//   machine Intel(R) Xeon(R) ..., 64 CPUs
//   mpi Open MPI v4.1.4, ...
//   cores ranks have their own, service processes have others
//   program lmp
//   ialltoall nonblocking 17 64 2 32 4 native 1764300000
//
// A line has the size class; ranks, nodes, ranks per node, service processes per node; the decision; and since when it
// is the same, in seconds since 1970.
//
// Thread rule: any thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/line_cache.hpp"
#include "protocol/options/selection.hpp"
#include "steer/plan/decision.hpp"

namespace outrigger::steer {

class DecisionFile {
 public:
  // `program`: as program_name() has it (base/program_name.hpp). Others as LineCache has them.
  DecisionFile(std::string program, std::string cores, std::string (*mpi_name)(),
               void (*refuse)(const std::string& path));

  // Nothing: not known.
  [[nodiscard]] std::optional<Method> method(const GroupShape& shape, CallKey key);
  void note(const GroupShape& shape, std::span<const CachedDecision> decisions);
  // Adds what was noted to the file. A failed write is ignored: the decisions are measured again.
  void save() { cache_.save(); }

 private:
  LineCache cache_;
};

}  // namespace outrigger::steer
