// The fabric of a service process on a DPU: its ranks are on the host, reached by RDMA while they compute.
//
//   posts        read from each rank's segment into a mirror (post_reader.hpp)
//   moves        in chunks, whose number under way is bounded: read from the source's memory straight into the
//                destination's where that is imported here (alias.hpp), else into staging, and written from there
//   completions  result and marks, then the slot's state, then the count: each in place before the next is written
//
// Messages to other service processes of the DPU, open slots and marks are the node fabric's, which has the mirrors.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/dpu/alias.hpp"
#include "fabric/dpu/alias_trial.hpp"
#include "fabric/dpu/post_reader.hpp"
#include "fabric/dpu/remote_memory.hpp"
#include "fabric/dpu/rma.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/host/host_fabric.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/staging.hpp"
#include "fabric/ucx/worker.hpp"
#include "protocol/rank_message.hpp"

namespace outrigger::fabric::dpu {

struct DpuOptions {
  std::string transports;  // as UCX_TLS; empty: what UCX's own settings name
  // From the connection to the rank's memory being reached; a network that cannot without the rank never answers. As
  // long again for the trial of exported handles: what takes longer is not used, and holds up nobody.
  std::chrono::milliseconds attach_limit{4000};
  std::uint64_t chunk_bytes = 256U << 10;
  std::size_t buffers = 32;  // chunks under way by staging, and as many by alias; at the limit moves wait
  bool alias = true;         // where it works
};

class DpuFabric final : public Fabric, public NodeMemory, private ucx::WorkerEvents {
 public:
  using Clock = std::chrono::steady_clock;

  // `node`: holds the mirrors and the rings to the other service processes here; must outlive this. `self`: the number
  // of this service process on the DPU.
  [[nodiscard]] static Result<std::unique_ptr<DpuFabric>> open(DpuOptions options, HostFabric& node, std::uint32_t self,
                                                               std::uint32_t world_size);
  ~DpuFabric() override;

  // Begins to connect. Error: it cannot.
  [[nodiscard]] Status add_rank(WorldRank rank, bool serves, const RankAddress& address);
  // What has become of add_rank(), each once: connected (then the rank may leave its network alone), then reached
  // without the rank's help; or a reason why not.
  struct Attached {
    enum class What { wired, reached, failed };
    What what;
    WorldRank rank;
    std::string reason;
    std::uint32_t reach = 0;  // of `reached`: kReach* bits
  };
  [[nodiscard]] std::optional<Attached> next_attached();
  // Fails ranks whose connection broke, or that have not been reached in time.
  void look_after_attaching(Clock::time_point now);
  void drop_rank(WorldRank rank);
  // A rank whose connection broke while it was needed, and that has not left since. Nothing of it ends any more.
  [[nodiscard]] std::optional<WorldRank> unreachable_rank(Clock::time_point now);
  [[nodiscard]] const std::string& lanes() const { return lanes_; }

  // Where a registered range of a rank begins; waits for its key.
  [[nodiscard]] Result<std::uint64_t> base_of(WorldRank rank, RegionId region);

  [[nodiscard]] bool progress();
  [[nodiscard]] std::size_t moves_in_flight() const { return moves_.size() + finished_.size(); }
  // Something is being read or written; not to sleep on that.
  [[nodiscard]] bool busy() const { return rma_.under_way() != 0 || !rma_.idle(); }
  // A way that data travels by, and then their number, which stand in the mirror's header.
  void publish_route(WorldRank rank, std::size_t route);

  // To sleep: tells the ranks until all know and none has posted since. True: sleep, on the descriptor.
  [[nodiscard]] bool may_sleep();
  // Looks at all ranks again. Also where there is work before all ranks know: those that do are not looked at, and what
  // the work waits for may be theirs.
  void wake_up();
  [[nodiscard]] int event_fd() const { return worker_->event_fd(); }
  [[nodiscard]] bool arm() const { return worker_->arm(); }

  void move(const Block& from, const Block& to, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) override;
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;

  [[nodiscard]] View view(const MemoryRef& memory, std::uint64_t bytes) override;
  [[nodiscard]] MoveStatus read(const MemoryRef& from, std::span<std::byte> to) override;
  [[nodiscard]] MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) override;
  [[nodiscard]] bool is_remote() const override { return true; }
  void start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) override;
  void start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done) override;
  bool progress_memory() override;

 private:
  enum class Stage { connecting, wired, proving, trying, reached, failed };
  enum class Sleep { awake, telling, asleep };
  struct Rank {
    WorldRank rank;
    bool serves = false;
    Stage stage = Stage::connecting;
    Clock::time_point since;
    RankMessage hello;
    SegmentView mirror;
    std::unique_ptr<RemoteMemory> remote;
    std::unique_ptr<PostReader> reader;
    std::vector<SlotIndex> completed;  // not yet told
    bool telling = false;
    bool line_changed = false;  // of the service process, in the mirror
    bool line_under_way = false;
    std::vector<Rma::Done> line_told;
    Sleep sleep = Sleep::awake;
    std::uint64_t sleep_attempts = 0;
    bool left = false;
    std::optional<Clock::time_point> broken_since;
    std::uint32_t proof = 0;           // read back
    std::optional<ExportTrial> offer;  // to try exported handles on
    std::unique_ptr<AliasTrial> trial;
    Clock::time_point trial_since;
    bool alias = false;  // what it exports is imported here
  };
  // A part of a move.
  struct Chunk {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  struct Move {
    Block from;
    Block to;
    MoveCompletion* completion = nullptr;  // null: cancelled
    std::uint64_t started_bytes = 0;
    std::uint32_t open_chunks = 0;
    MoveStatus status = MoveStatus::ok;
    ImportedPtr target{};          // of the destination's memory; null: staged
    std::vector<Chunk> refused{};  // by the network: to be staged
    bool queued = false;           // in ready_ or alias_ready_
    bool aliased = false;          // some was moved by alias: it is in place after a read
    bool staged = false;           // some was staged

    [[nodiscard]] bool has_more() const { return !refused.empty() || started_bytes < from.bytes; }
  };

  DpuFabric(DpuOptions options, HostFabric& node, std::uint32_t self, std::uint32_t world_size);
  ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous) override;
  [[nodiscard]] Rank* find(WorldRank rank);

  // dpu_fabric.cpp
  void step(Rank& rank);
  void say_hello(Rank& rank);
  void prove(Rank& rank);
  void attached(Rank& rank, Attached::What what, const std::string& reason = {});
  void try_alias(Rank& rank);
  void reached(Rank& rank);
  void leave(Rank& rank);
  void tell_completions(Rank& rank);
  void tell_states(WorldRank rank, std::vector<SlotIndex> slots);
  void store_result(Rank& rank, SlotIndex slot);
  void tell_line(Rank& rank);
  void begin_sleep(Rank& rank);

  // dpu_moves.cpp
  [[nodiscard]] bool start_chunks();
  void queue(std::uint64_t id, Move& move);
  void unqueue(std::uint64_t id, Move& move);
  // The next move of a queue that has something to begin; null: there is none, or it was cancelled.
  [[nodiscard]] Move* next_of(std::deque<std::uint64_t>& queue, std::uint64_t& id);
  [[nodiscard]] Chunk next_chunk(Move& move) const;
  void start_chunk(std::uint64_t id, Move& move, ucx::StagingBuffer staging);
  void chunk_ended(std::uint64_t id, MoveStatus status);
  void finish(std::uint64_t id);

  // dpu_alias.cpp
  [[nodiscard]] bool may_alias(const Move& move);
  void choose_way(std::uint64_t id, const RemoteRangePtr& destination);
  void start_alias_chunk(std::uint64_t id, Move& move);
  void alias_chunk_ended(std::uint64_t id, const Chunk& chunk, MoveStatus status);
  // Reads the last bytes of the destination over its own connection: what the network has written there for others is
  // in place then, and what is put there next comes after it.
  void read_after(std::uint64_t id, Move& move);

  DpuOptions options_;
  HostFabric& node_;
  std::uint32_t self_;
  std::uint32_t world_size_;
  std::string lanes_;
  ucx::StagingPool staging_;
  Rma rma_;
  std::shared_ptr<UcxImporter> importer_;  // null: there is no alias
  std::optional<ImportCache> imports_;
  std::optional<ucx::Context> context_;
  std::optional<ucx::Worker> worker_;
  std::unordered_map<WorldRank, std::unique_ptr<Rank>> ranks_;
  std::deque<Attached> attached_;
  std::uint64_t next_move_ = 1;
  std::unordered_map<std::uint64_t, Move> moves_;
  std::deque<std::uint64_t> ready_;        // with chunks to be staged, by turns
  std::deque<std::uint64_t> alias_ready_;  // the same by alias
  std::size_t alias_reads_ = 0;            // under way
  FinishedMoves finished_;
  bool all_awake_ = true;
};

}  // namespace outrigger::fabric::dpu
