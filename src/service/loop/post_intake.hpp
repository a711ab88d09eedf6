// Takes the ranks' posts from their segments to the engine: first slots from the ring, then overflow records.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/host/host_fabric.hpp"
#include "protocol/shared/segment.hpp"
#include "service/loop/awaited_ranks.hpp"
#include "service/loop/found_posts.hpp"
#include "service/loop/group_cache.hpp"
#include "service/loop/heartbeat.hpp"
#include "service/loop/lateness.hpp"
#include "service/loop/slot_decoder.hpp"
#include "service/loop/steering_host.hpp"
#include "service/loop/trace_log.hpp"

namespace outrigger::service {

// A rank that this service process serves.
struct ServedRank {
  WorldRank rank;
  SegmentView segment;                       // its own, or the mirror of a remote rank's
  std::uint32_t head = 0;                    // ring entries taken
  std::uint32_t overflow_taken = 0;          // records
  std::optional<LocalRef> last_record = {};  // the last one of them; the rank does not free it
};

class PostIntake {
 public:
  // `node`: has the ranks' memory. `plans`: gets the number of each rank's dispatch plan. `lateness`: gets post times
  // of ranks that want them.
  PostIntake(fabric::HostFabric& node, SteeringHost& plans, Lateness& lateness)
      : node_(node), plans_(plans), lateness_(lateness) {}

  void serve(WorldRank rank, SegmentView segment);
  // Publishes the last taken operation there. Must outlive this.
  void show_in(Heartbeat& heartbeat) { heartbeat_ = &heartbeat; }
  // Writes taken operations to the trace. Must outlive this.
  void trace_in(TraceLog& trace) { trace_ = &trace; }
  // Segments are mirrors; a port tells the posting ranks that this process sleeps.
  void set_mirrors() { mirrors_ = true; }
  // Before the first take(). `completes`: for posts that do not reach the engine. All must outlive this.
  void start(engine::Engine& engine, steer::Coordinator& coordinator, fabric::RankView& completes,
             std::uint32_t world_size);
  // True if the ranks have stopped copying for the dead predecessor.
  [[nodiscard]] bool copies_are_over() const;
  // After copies_are_over() and start(): takes all posts that are not done, in any state, and gives the engine the
  // ranks' progress. `restarts`: number of replacements so far. Error: a segment is inconsistent.
  [[nodiscard]] Status take_over(std::uint32_t restarts);
  void remove(WorldRank rank);
  [[nodiscard]] std::span<const ServedRank> served() const { return served_; }

  // Takes a bounded number of posts per rank. True if any.
  [[nodiscard]] bool take();
  [[nodiscard]] bool has_taken() { return std::exchange(has_taken_, false); }
  // A rank that has broken the protocol since the last call: to be removed.
  struct Misbehaved {
    WorldRank rank;
    std::string reason;
  };
  [[nodiscard]] std::vector<Misbehaved> take_misbehaved() { return std::exchange(misbehaved_, {}); }

  // True if all ranks sleep in a wait, so that none computes on a shared core.
  [[nodiscard]] bool ranks_wait() const;
  // As Port::arm() and wake_up(). `backlogged`: posts have to wait.
  [[nodiscard]] bool arm(bool backlogged);
  void wake_up() { announce_sleep(false); }

 private:
  [[nodiscard]] bool take_slots_of(ServedRank& served);
  [[nodiscard]] bool take_overflow_of(ServedRank& served);
  [[nodiscard]] std::optional<LocalRef> next_record(const ServedRank& served);
  enum class Taken : std::uint8_t { first, again };
  void take_operation(WorldRank rank, SlotIndex slot, const SlotRequestBody& body, Taken taken = Taken::first);
  void post(const SlotRequestBody& body, engine::PostedOperation&& operation, Taken taken);
  // Tells the rank that is the last to post the operation.
  void tell_awaited(const engine::PostedOperation& operation);
  void restore_groups(WorldRank rank, const FoundPosts& found);
  void take_found(ServedRank& served, const FoundPost& post);
  void restore_plans();
  // Posts that are no operations and complete at once.
  void note(WorldRank rank, const SlotRequestBody& body, const ForgetGroup& forget);
  void note(WorldRank rank, const SlotRequestBody& body, const LargerBlocks& larger);
  void note(WorldRank rank, const SlotRequestBody& body, const JoinPlan& join);
  void note(WorldRank rank, const SlotRequestBody& body, const AskTrial& ask);
  void note(WorldRank rank, const SlotRequestBody& body, const Recall& recall);
  void note(WorldRank rank, const SlotRequestBody& body, const TrialMeasured& measured);
  void note(WorldRank rank, const SlotRequestBody& body, const GiveUpTrial& given_up);
  void reject(WorldRank rank, SlotIndex slot, const SlotRequestBody& body);
  void report_fault(const ServedRank& served, std::string reason);
  void announce_sleep(bool sleeping);

  fabric::HostFabric& node_;
  SteeringHost& plans_;
  engine::Engine* engine_ = nullptr;
  steer::Coordinator* coordinator_ = nullptr;
  fabric::RankView* completes_ = nullptr;
  std::uint32_t world_size_ = 0;
  std::optional<GroupCache> groups_;
  std::vector<ServedRank> served_;
  AwaitedRanks awaited_;
  std::vector<Misbehaved> misbehaved_;
  Heartbeat* heartbeat_ = nullptr;  // nullptr if it is not published
  TraceLog* trace_ = nullptr;       // nullptr if there is none
  Lateness& lateness_;
  bool mirrors_ = false;
  bool has_taken_ = false;
};

}  // namespace outrigger::service
