// What the ranks of this node count for the report, kept beyond their end. Where the job ends without MPI_Finalize, the
// keeper of world rank 0's node writes what all ranks have counted, as far as it has heard of other nodes' by then, and
// how it ended; after MPI_Finalize that rank has.
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

  // Memory from a rank. Error: it is none that a rank counts in, or the rank has given some before.
  [[nodiscard]] Status take(const LocalRank& rank, UniqueFd memory);
  // Before the rank's things are given up.
  void rank_leaves(const LocalRank& rank);
  // The library ends the job.
  void job_ends(const std::string& why);
  // What ranks have counted so far, of those that count; good until the next one comes.
  [[nodiscard]] std::vector<report::LiveRank> live() const;

  // --- once no rank is here any more ---
  // A report is wanted, world rank 0 was here, and nobody has written it.
  [[nodiscard]] bool to_be_written() const;
  // A report is wanted, world rank 0 was on another node, and ranks of this one have not sent their counts.
  [[nodiscard]] bool to_be_told() const;
  [[nodiscard]] report::NodeCounts of_this_node() const;
  void take_of_another_node(report::NodeCounts counts) { others_.push_back(std::move(counts)); }
  void write() const;

 private:
  struct Counted {
    std::optional<report::Ledger> ledger;
    pid_t pid = 0;
    UniqueFd exit_event;
    std::int64_t left_ns = 0;   // 0: it has not
    std::uint32_t left_as = 0;  // the how-manieth, from 1
  };
  // And when, on CLOCK_MONOTONIC.
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
