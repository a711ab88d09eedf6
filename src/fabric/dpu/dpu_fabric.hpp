// The fabric of a service process on a DPU: its ranks are on the host and are reached by RDMA while they compute.
//
//   posts        read from each rank's segment into a mirror (post_reader.hpp)
//   moves        between ranks' memory, by ranks that wait (host_copies.hpp) or by the card (rank_moves.hpp)
//   reductions   of several ranks' memory, into one's (rank_reductions.hpp)
//   marks        delivered marks, written into the ranks' segments (delivered_marks.hpp, marks_first.hpp)
//   completions  written likewise (completions.hpp)
//
// The node's fabric has the mirrors. It also carries messages to other service processes of the DPU, and keeps open
// slots and marks.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/dpu/alias.hpp"
#include "fabric/dpu/attachments.hpp"
#include "fabric/dpu/completions.hpp"
#include "fabric/dpu/delivered_marks.hpp"
#include "fabric/dpu/dpu_options.hpp"
#include "fabric/dpu/host_copies.hpp"
#include "fabric/dpu/rank_moves.hpp"
#include "fabric/dpu/rank_reductions.hpp"
#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/dpu/sleep_notices.hpp"
#include "fabric/dpu/take_over.hpp"
#include "fabric/host/host_fabric.hpp"
#include "fabric/port.hpp"
#include "fabric/rank_view.hpp"

namespace outrigger::fabric::dpu {

class DpuFabric final : public BlockMover, public RankView, public RemoteRanks, public Port, private ucx::WorkerEvents {
 public:
  using Clock = Port::Clock;

  // `node`: has the mirrors and the rings to other service processes of the DPU; must outlive this. `process`: this
  // process's number among all that were started for the host.
  [[nodiscard]] static Result<std::unique_ptr<DpuFabric>> open(DpuOptions options, HostFabric& node,
                                                               std::uint32_t process, std::uint32_t world_size);
  ~DpuFabric();

  // Starts to connect: at once, or in look_after() if this is a standby process. Error: it cannot.
  [[nodiscard]] Status add_rank(WorldRank rank, bool serves, const RankAddress& address) {
    return attachments_.add(rank, serves, address);
  }
  void drop_rank(WorldRank rank);
  // Results of add_rank().
  [[nodiscard]] Attachments& attachments() { return attachments_; }

  // For a process that replaces a dead one.
  [[nodiscard]] TakeOver& take_over() { return take_over_; }
  // The engine's messages go through a fabric that waits for these (marks_first.hpp).
  [[nodiscard]] DeliveredMarks& marks() { return marks_; }

  // Base address of a rank's registered range; waits for its key.
  [[nodiscard]] Result<std::uint64_t> base_of(WorldRank rank, RegionId region);

  // Moves within the host may wait for its ranks.
  [[nodiscard]] bool leaves_copies_to_host() const { return options_.host_copies; }
  // Includes reductions.
  [[nodiscard]] std::size_t moves_in_flight() const { return copies_.size() + moves_.size() + reductions_.size(); }
  // Publishes a data route, and then the number of routes, from the mirror's header.
  void publish_route(WorldRank rank, std::size_t route) { completions_.publish_route(rank, route); }

  bool progress() override;
  // Fails ranks that have not been reached in time.
  void look_after(Clock::time_point now, const Business& business) override;
  // A rank whose connection broke while it was needed, and that has not left since. Its operations cannot end.
  [[nodiscard]] const PortFailure* failure() const override { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] std::vector<int> descriptors() const override { return {worker().event_fd()}; }
  // Notifies the ranks until all know and none has posted since.
  [[nodiscard]] bool may_sleep() override;
  [[nodiscard]] bool arm() override { return moves_in_flight() == 0 && worker().arm(); }
  // Polls all ranks again. Also called if there is work before all ranks know: ranks that know are not polled, but may
  // have posts.
  void wake_up() override { sleep_notices_.wake_up(); }
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override;

  void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  // Hints are ignored: the blocks would have to be copied here first.
  void send_eager(const BlockId& /*name*/, const Block& /*from*/, SpId /*reader*/) override {}
  void withdraw_eager(const BlockId& /*name*/) override {}
  void forget_eager(const BlockId& /*name*/, SpId /*source*/) override {}
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override;
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  // Ignored: ranks of the host are notified at the end of the operation.
  void filled(WorldRank /*rank*/, SlotIndex /*slot*/, const CompletionRecord& /*record*/) override {}
  [[nodiscard]] bool has_passed(WorldRank /*rank*/, const OperationId& /*operation*/,
                                std::uint32_t /*native_calls*/) override {
    return false;
  }

 private:
  DpuFabric(DpuOptions options, HostFabric& node, std::uint32_t process, std::uint32_t world_size);
  [[nodiscard]] Status open_network();
  ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous) override;
  void step(RemoteRank& rank);
  void complete_deferred();

  DpuOptions options_;
  HostFabric& node_;
  std::shared_ptr<UcxImporter> importer_;  // nullptr without alias
  std::optional<ImportCache> imports_;
  Attachments attachments_;
  RankMoves moves_;
  HostCopies copies_;
  RankReductions reductions_;
  DeliveredMarks marks_;
  Completions completions_;
  SleepNotices sleep_notices_;
  TakeOver take_over_;
  struct Deferred {
    WorldRank rank;
    SlotIndex slot;
    CompletionRecord record;
  };
  std::vector<Deferred> deferred_;  // completions of ranks into whose memory a stopped one may still write
  std::optional<PortFailure> failure_;
};

}  // namespace outrigger::fabric::dpu
