// The report's counts of this node's ranks, kept beyond the ranks' end. After MPI_Finalize world rank 0 writes the
// report. If the job ends without it, the keeper of world rank 0's node writes the counts of all ranks received so far,
// and how the job ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "report/ledger.hpp"
#include "report/live.hpp"
#include "report/node_counts.hpp"
#include "service/keeper/ranks/local_ranks.hpp"

namespace outrigger::service {

class JobCounts {
 public:
  explicit JobCounts(std::uint32_t local_size) : ranks_(local_size) {}

  // Takes a rank's memory. Error: it is not memory for counts, or the rank has given some before.
  [[nodiscard]] Status take(const LocalRank& rank, UniqueFd memory);
  // Before the rank's data are released.
  void rank_leaves(const LocalRank& rank);
  // The library ends the job.
  void job_ends(const std::string& why);
  // Counts of the ranks so far; valid until the next rank arrives.
  [[nodiscard]] std::vector<report::LiveRank> live() const;

  // The following are for the time when no rank is left.
  //
  // True if a report is wanted, world rank 0 was on this node, and no rank has written it.
  [[nodiscard]] bool to_be_written() const;
  // True if a report is wanted, world rank 0 was on another node, and ranks of this one have not sent their counts.
  [[nodiscard]] bool to_be_sent() const;
  [[nodiscard]] report::NodeCounts of_this_node() const;
  void take_of_another_node(report::NodeCounts counts) { others_.push_back(std::move(counts)); }
  void write() const;

 private:
  struct Counted {
    std::optional<report::Ledger> ledger;
    pid_t pid = 0;
    UniqueFd exit_event;
    std::int64_t left_ns = 0;   // 0: it has not left
    std::uint32_t left_as = 0;  // its position in the order of leaving, from 1
  };
  // How a rank ended, and when by CLOCK_MONOTONIC.
  struct End {
    report::Ending ended;
    std::int64_t at_ns = 0;
  };
  [[nodiscard]] const report::Ledger* of_rank_0() const;
  [[nodiscard]] End end() const;
  [[nodiscard]] std::optional<End> aborted() const;
  [[nodiscard]] End gone() const;

  std::vector<Counted> ranks_;  // by local rank
  std::vector<WireRoute> routes_;
  std::vector<report::NodeCounts> others_;
  std::string why_;
  std::int64_t why_at_ns_ = 0;
  std::uint32_t left_ = 0;
};

}  // namespace outrigger::service
