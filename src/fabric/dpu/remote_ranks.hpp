// The ranks of the host, their network, and their memory, which is read and written while they compute.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/dpu/alias_trial.hpp"
#include "fabric/dpu/post_reader.hpp"
#include "fabric/dpu/rank_lender.hpp"
#include "fabric/dpu/remote_memory.hpp"
#include "fabric/dpu/rma.hpp"
#include "fabric/dpu/segment_scan.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/worker.hpp"
#include "protocol/wire/rank_address.hpp"
#include "protocol/wire/rank_message.hpp"

namespace outrigger::fabric::dpu {

using Clock = std::chrono::steady_clock;

// Time for cancelled reads and writes to end.
inline constexpr std::chrono::seconds kLandingTime{2};

// Each group of members belongs to the class that is named before it.
struct RemoteRank {
  WorldRank rank;
  bool serves = false;
  SegmentView mirror;
  std::unique_ptr<RemoteMemory> remote;
  std::unique_ptr<PostReader> reader;

  // Attachments.
  enum class Stage { connecting, wired, proving, trying, reached, failed };
  Stage stage = Stage::connecting;
  bool in_no_hurry = false;  // no time limit for the connection
  bool left = false;
  Clock::time_point since;
  std::optional<ExportTrial> offer;  // for the trial of exported handles
  std::unique_ptr<AliasTrial> trial;
  Clock::time_point trial_since;
  bool alias = false;  // its exported memory is imported here
  std::optional<Clock::time_point> broken_since;

  // For a rank that this process took over from a dead one (TakeOver).
  enum class TakenOver { no, to_be_read, being_read, read, yes };
  TakenOver taken_over = TakenOver::no;
  std::unique_ptr<SegmentScan> scan;

  // HostCopies.
  RankProcess process;
  std::unique_ptr<RankLender> lender;  // of a served rank

  // Completions.
  std::vector<SlotIndex> completed;  // not told yet
  bool telling = false;
  bool line_changed = false;  // the service process's line in the mirror
  bool line_under_way = false;
  std::vector<Rma::Done> line_told;

  // SleepNotices.
  enum class Sleep { awake, telling, asleep };
  Sleep sleep = Sleep::awake;
  std::uint64_t sleep_attempts = 0;

  [[nodiscard]] bool is_reached() const { return stage == Stage::reached; }
  // Its posts are taken from the mirror.
  [[nodiscard]] bool is_known() const {
    return is_reached() && (taken_over == TakenOver::no || taken_over == TakenOver::yes);
  }
};

class RemoteRanks : public NodeMemory {
 public:
  using Ranks = std::unordered_map<WorldRank, std::unique_ptr<RemoteRank>>;

  [[nodiscard]] RemoteRank* find(WorldRank rank);
  RemoteRank& add(std::unique_ptr<RemoteRank> rank);
  void erase(WorldRank rank) { ranks_.erase(rank); }
  [[nodiscard]] const Ranks& all() const { return ranks_; }
  [[nodiscard]] Rma& rma() { return rma_; }
  [[nodiscard]] const ucx::Worker& worker() const { return *worker_; }

  [[nodiscard]] View view(const MemoryRef& memory, std::uint64_t bytes) override;
  [[nodiscard]] MoveStatus read(const MemoryRef& from, std::span<std::byte> to) override;
  [[nodiscard]] MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) override;
  [[nodiscard]] bool is_remote() const override { return true; }
  void start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) override;
  void start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done) override;
  bool progress_memory() override;

 protected:
  RemoteRanks() = default;
  ~RemoteRanks() = default;
  // Called once, before any rank is added.
  [[nodiscard]] Status open(ucx::Context context, ucx::WorkerEvents& events);
  // Operations that wait for a rank's memory are notified of its loss.
  void drop_all() { ranks_.clear(); }
  // No more callbacks. Releases what callbacks hold: keys must go before their worker.
  void close();

 private:
  Rma rma_;
  std::optional<ucx::Context> context_;
  std::optional<ucx::Worker> worker_;
  Ranks ranks_;
};

}  // namespace outrigger::fabric::dpu
