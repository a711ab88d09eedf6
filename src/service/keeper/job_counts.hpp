// What the ranks of this node count for the report, kept beyond their end. Where the job ends without MPI_Finalize, the
// keeper of world rank 0's node writes what its ranks have counted, and how it ended; after MPI_Finalize that rank has.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "report/ledger.hpp"
#include "report/live.hpp"
#include "report/summary.hpp"
#include "service/keeper/local_ranks.hpp"

namespace outrigger::service {

class JobCounts {
 public:
  explicit JobCounts(std::uint32_t local_size) : ranks_(local_size) {}

  // Memory from a rank. Error: it is none that a rank counts in, or the rank has given some before.
  [[nodiscard]] Status take(const LocalRank& rank, UniqueFd memory);
  // Before the rank's things are given up.
  void rank_leaves(const LocalRank& rank);
  // The library ends the job.
  void job_ends(const std::string& why) { why_ = why; }
  // What ranks have counted so far, of those that count; good until the next one comes.
  [[nodiscard]] std::vector<report::LiveRank> live() const;
  // Once no rank is here any more. Writes the report if nobody else has.
  void write();

 private:
  struct Counted {
    std::optional<report::Ledger> ledger;
    pid_t pid = 0;
    UniqueFd exit_event;
    std::int64_t left_ns = 0;   // 0: it has not
    std::uint32_t left_as = 0;  // the how-manieth, from 1
  };
  [[nodiscard]] report::Ending ending() const;
  [[nodiscard]] std::optional<report::Ending> aborted() const;
  [[nodiscard]] report::Ending gone() const;

  std::vector<Counted> ranks_;  // by local rank
  std::vector<report::WireUse> wire_;
  std::string why_;
  std::uint32_t left_ = 0;
};

}  // namespace outrigger::service
