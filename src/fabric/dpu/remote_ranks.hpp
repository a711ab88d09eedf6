// The ranks of the host, the network that they are reached by, and their memory: read and written while they compute.
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
#include "fabric/dpu/remote_memory.hpp"
#include "fabric/dpu/rma.hpp"
#include "fabric/dpu/segment_scan.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/worker.hpp"
#include "protocol/wire/rank_message.hpp"

namespace outrigger::fabric::dpu {

using Clock = std::chrono::steady_clock;

// For what is being read and written to come to rest, where it is cancelled.
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
  bool in_no_hurry = false;  // to connect: it is waited for, however long that takes
  bool left = false;
  Clock::time_point since;
  std::optional<ExportTrial> offer;  // to try exported handles on
  std::unique_ptr<AliasTrial> trial;
  Clock::time_point trial_since;
  bool alias = false;  // what it exports is imported here
  std::optional<Clock::time_point> broken_since;

  // Of a rank whose service process has died, and which this one serves now (TakeOver).
  enum class TakenOver { no, to_be_read, being_read, read, yes };
  TakenOver taken_over = TakenOver::no;
  std::unique_ptr<SegmentScan> scan;

  // Completions.
  std::vector<SlotIndex> completed;  // not yet told
  bool telling = false;
  bool line_changed = false;  // of the service process, in the mirror
  bool line_under_way = false;
  std::vector<Rma::Done> line_told;

  // SleepNotices.
  enum class Sleep { awake, telling, asleep };
  Sleep sleep = Sleep::awake;
  std::uint64_t sleep_attempts = 0;

  [[nodiscard]] bool is_reached() const { return stage == Stage::reached; }
  // What it posts is taken, by way of the mirror.
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
  // Once, before any rank is added.
  [[nodiscard]] Status open(ucx::Context context, ucx::WorkerEvents& events);
  // What waits for a rank's memory is told that it is lost.
  void drop_all() { ranks_.clear(); }
  // Nobody is called back any more; what callbacks hold is let go: keys before the worker that they are of.
  void close();

 private:
  Rma rma_;
  std::optional<ucx::Context> context_;
  std::optional<ucx::Worker> worker_;
  Ranks ranks_;
};

}  // namespace outrigger::fabric::dpu
