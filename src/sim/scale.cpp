#include "sim/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "fabric/sim/bare_fabric.hpp"
#include "fabric/sim/random.hpp"
#include "protocol/wire/peer_messages.hpp"
#include "sim/allocation_count.hpp"

namespace outrigger::sim {
namespace {

constexpr SpId kSelf{0};
constexpr GroupId kGroup{1, 1};
constexpr std::size_t kMessagesPerStep = 64;  // messages available to a service process at a time

// Ranks and service processes as numbers: all relations between them are computed.
class Job {
 public:
  explicit Job(const ScaleOptions& options) : options_(options) {}

  [[nodiscard]] std::uint32_t ranks() const { return options_.nodes * options_.ranks_per_node; }
  [[nodiscard]] std::uint32_t per_service() const { return options_.ranks_per_node / options_.services; }
  [[nodiscard]] std::uint32_t services() const { return options_.nodes * options_.services; }
  [[nodiscard]] std::uint32_t window_moves() const {
    return engine::window_moves_for(options_.nodes, options_.services);
  }
  [[nodiscard]] std::uint32_t service_of(std::uint32_t rank) const { return rank / per_service(); }
  [[nodiscard]] std::uint64_t block_bytes(std::uint32_t source, std::uint32_t destination) const {
    if (!options_.v_form) return options_.block_bytes;
    const std::uint64_t key = (std::uint64_t{source} << 32U) | destination;
    return 1 + fabric::sim::Random::mix(key) % (2 * options_.block_bytes - 1);
  }
  [[nodiscard]] peer::Side side() const {
    return options_.algorithm == Algorithm::ring_pull ? peer::Side::send : peer::Side::receive;
  }
  [[nodiscard]] Collective collective() const {
    return options_.v_form ? Collective::ialltoallv : Collective::ialltoall;
  }
  [[nodiscard]] std::uint64_t digest() const {
    return operation_digest(collective(), options_.algorithm, 0, ranks(), 0);
  }
  [[nodiscard]] const ScaleOptions& options() const { return options_; }

 private:
  ScaleOptions options_;
};

void encode(peer::Body body, std::vector<std::byte>& out) {
  peer::Message message;
  message.header = peer::Header{Epoch{1}, Epoch{1}, OperationId{kGroup, 0}};
  message.body = std::move(body);
  out.clear();
  peer::encode(message, out);
}

// All other service processes. Holds messages on their way to the real one: at most one entry per announcement that it
// has sent.
class SymbolicPeers final : public fabric::sim::BareFabric {
 public:
  explicit SymbolicPeers(const Job& job) : job_(job) {}

  void move(const Block& /*from*/, const Block& /*to*/, const BlockId* /*name*/,
            fabric::MoveCompletion& completion) override {
    const bool counting = std::exchange(allocation_count().counting, false);
    moves_.push_back(&completion);
    allocation_count().counting = counting;
  }
  void cancel(fabric::MoveCompletion& completion) override { std::erase(moves_, &completion); }
  void send(SpId to, std::span<const std::byte> message) override {
    const bool counting = std::exchange(allocation_count().counting, false);
    take(to, message);
    allocation_count().counting = counting;
  }
  void mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) override {
    ++marks;
  }
  void complete(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& record) override {
    ++completions;
    if (record.status != CompletionStatus::ok) broken = "a rank completed with an error";
  }

  // The announcement of a peer's rank.
  void announce(std::uint32_t rank, std::vector<std::byte>& out) const;
  // The next answer of a peer. False if there is none.
  bool answer(SpId& from, std::vector<std::byte>& out);
  // Ends the active moves. False if there were none.
  bool end_moves();

  std::uint64_t marks = 0;
  std::uint64_t completions = 0;
  std::optional<std::string> broken;

 private:
  // To be answered for the peer's ranks from `next` up to `end`, one after the other.
  struct Pending {
    bool announced;       // otherwise a report of a delivered block
    std::uint32_t local;  // the local rank
    std::uint32_t next;
    std::uint32_t end;
  };
  void take(SpId to, std::span<const std::byte> message);

  const Job& job_;
  std::deque<Pending> pending_;
  std::vector<fabric::MoveCompletion*> moves_;
  std::vector<fabric::MoveCompletion*> ending_;
};

void SymbolicPeers::announce(std::uint32_t rank, std::vector<std::byte>& out) const {
  peer::Announce announce;
  announce.side = job_.side();
  announce.rank = WorldRank{rank};
  announce.group_rank = GroupRank{rank};
  announce.collective = job_.collective();
  announce.algorithm = job_.options().algorithm;
  announce.digest = job_.digest();
  announce.members = announce.count = job_.per_service();
  if (!job_.options().v_form) {
    announce.block_bytes = job_.options().block_bytes;
    announce.stride_bytes = static_cast<std::int64_t>(announce.block_bytes);
  }
  for (std::uint32_t local = 0; job_.options().v_form && local < job_.per_service(); ++local) {
    const bool sends = job_.side() == peer::Side::send;
    const std::uint64_t bytes = sends ? job_.block_bytes(rank, local) : job_.block_bytes(local, rank);
    announce.extents.push_back(
        PairExtent{static_cast<std::int64_t>(std::uint64_t{local} * 2 * job_.options().block_bytes), bytes});
  }
  encode(std::move(announce), out);
}

void SymbolicPeers::take(SpId to, std::span<const std::byte> bytes) {
  const std::optional<peer::Message> message = peer::decode(bytes);
  if (!message) {
    broken = "a message cannot be decoded";
  } else if (const auto* announce = std::get_if<peer::Announce>(&message->body)) {
    const std::uint32_t first = to.value() * job_.per_service() + announce->first;
    pending_.push_back(Pending{true, announce->group_rank.value(), first, first + announce->count});
  } else if (const auto* delivered = std::get_if<peer::Delivered>(&message->body)) {
    const std::uint32_t destination = delivered->destination.value();
    pending_.push_back(Pending{false, delivered->source.value(), destination, destination + 1});
  } else if (!std::holds_alternative<peer::Release>(message->body)) {
    broken = "an unexpected message";
  }
}

bool SymbolicPeers::answer(SpId& from, std::vector<std::byte>& out) {
  if (pending_.empty()) return false;
  Pending pending = pending_.front();
  pending_.pop_front();
  const std::uint32_t rank = pending.next++;
  if (pending.next != pending.end) pending_.push_back(pending);
  from = SpId{job_.service_of(rank)};
  if (pending.announced && job_.side() == peer::Side::receive) {
    peer::Delivered delivered;
    delivered.source = GroupRank{rank};
    delivered.destination = GroupRank{pending.local};
    delivered.invite_epoch = Epoch{1};
    delivered.sent_bytes = delivered.moved_bytes = job_.block_bytes(rank, pending.local);
    encode(delivered, out);
  } else {
    encode(peer::Release{GroupRank{pending.local}, GroupRank{rank}}, out);
  }
  return true;
}

bool SymbolicPeers::end_moves() {
  if (moves_.empty()) return false;
  std::swap(moves_, ending_);
  for (fabric::MoveCompletion* completion : ending_) completion->moved(fabric::MoveOutcome());
  ending_.clear();
  return true;
}

engine::BlockLayout layout(const Job& job, std::uint32_t rank, bool sends) {
  engine::BlockLayout blocks;
  blocks.base.owner = WorldRank{rank};
  blocks.block_bytes = job.options().block_bytes;
  blocks.stride_bytes = static_cast<std::int64_t>(blocks.block_bytes);
  if (!job.options().v_form) return blocks;
  blocks.extents.resize(job.ranks());
  std::int64_t offset = 0;
  for (std::uint32_t peer = 0; peer < job.ranks(); ++peer) {
    const std::uint64_t bytes = sends ? job.block_bytes(rank, peer) : job.block_bytes(peer, rank);
    blocks.extents[peer] = PairExtent{offset, bytes};
    offset += static_cast<std::int64_t>(bytes);
  }
  return blocks;
}

class Run {
 public:
  explicit Run(const ScaleOptions& options)
      : job_(options),
        peers_(job_),
        remote_ranks_(job_.ranks() - job_.per_service()),
        stride_(coprime_stride(remote_ranks_)) {}

  Result<ScaleResult> run() {
    {
      const CountAllocations count;
      start();
    }
    for (;;) {
      bool progressed = post_due();
      progressed = deliver() || progressed;
      const CountAllocations count;
      progressed = engine_->run() || progressed;
      progressed = peers_.end_moves() || progressed;
      if (!progressed) break;
    }
    return result();
  }

 private:
  // A stride that visits every rank once in an order other than the ring's.
  static std::uint32_t coprime_stride(std::uint32_t count) {
    std::uint32_t stride = count / 3 * 2 + 1;
    while (std::gcd(stride, count) != 1) ++stride;
    return stride;
  }

  void start() {
    engine::EngineConfig config;
    config.self = kSelf;
    std::vector<WorldRank> members;
    members.reserve(job_.ranks());
    config.sp_of_rank.reserve(job_.ranks());
    for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank) {
      members.emplace_back(rank);
      config.sp_of_rank.emplace_back(job_.service_of(rank));
    }
    config.limits.window_moves = job_.window_moves();
    members_ = std::make_shared<const std::vector<WorldRank>>(std::move(members));
    engine_ = std::make_unique<engine::Engine>(config, peers_.seams());
  }

  [[nodiscard]] bool due(std::uint32_t rank) const {
    switch (job_.options().arrival) {
      case Arrival::early: return true;
      case Arrival::late: return announced_ == remote_ranks_;
      case Arrival::spread: break;
    }
    return std::uint64_t{announced_} * job_.per_service() >= std::uint64_t{remote_ranks_} * rank;
  }

  bool post_due() {
    bool posted = false;
    for (; posted_ < job_.per_service() && due(posted_); ++posted_) {
      const CountAllocations count;
      engine::PostedOperation operation;
      operation.rank = WorldRank{posted_};
      operation.slot = SlotIndex{posted_};
      operation.id = OperationId{kGroup, 0};
      operation.members = members_;
      operation.me = GroupRank{posted_};
      operation.collective = job_.collective();
      operation.algorithm = job_.options().algorithm;
      operation.digest = job_.digest();
      operation.send = layout(job_, posted_, true);
      operation.receive = layout(job_, posted_, false);
      operation.own_block_done = true;
      engine_->post(std::move(operation));
      posted = true;
    }
    return posted;
  }

  bool deliver() {
    bool delivered = false;
    for (std::size_t i = 0; i < kMessagesPerStep; ++i) {
      SpId from;
      // Announcements and answers take turns.
      if (announced_ != remote_ranks_ && (posted_ != 0 || job_.options().arrival == Arrival::late) && i % 2 == 0) {
        const std::uint64_t position = std::uint64_t{announced_++} * stride_ % remote_ranks_;
        const std::uint32_t rank = job_.per_service() + static_cast<std::uint32_t>(position);
        peers_.announce(rank, message_);
        from = SpId{job_.service_of(rank)};
      } else if (!peers_.answer(from, message_)) {
        continue;
      }
      const CountAllocations count;
      if (!engine_->receive(from, message_)) peers_.broken = "a peer's message was refused";
      delivered = true;
    }
    return delivered;
  }

  Result<ScaleResult> result() {
    ScaleResult result;
    result.ranks = job_.ranks();
    result.local_ranks = job_.per_service();
    result.peers = job_.services() - 1;
    result.counters = engine_->counters();
    const AllocationCount& count = allocation_count();
    if (count.available) {
      result.group_bytes = count.bytes;
      result.peak_bytes = count.most_bytes;
      result.most_allocations = count.most_live;
    }
    if (peers_.broken) return Error{*peers_.broken};
    if (peers_.completions != job_.per_service() || !engine_->idle()) return Error{"the operation does not end"};
    // Every block for a local rank except its own is marked, whichever side moved it.
    if (peers_.marks != result.pairs() - job_.per_service()) return Error{"blocks are missing"};
    return result;
  }

  Job job_;
  SymbolicPeers peers_;
  std::shared_ptr<const std::vector<WorldRank>> members_;
  std::unique_ptr<engine::Engine> engine_;
  std::uint32_t remote_ranks_;
  std::uint32_t stride_;
  std::uint32_t announced_ = 0;
  std::uint32_t posted_ = 0;
  std::vector<std::byte> message_;
};

}  // namespace

Result<ScaleResult> count_scale(const ScaleOptions& options) {
  if (options.nodes < 2) return Error{"nodes: at least 2, else there is no peer"};
  if (options.ranks_per_node == 0) return Error{"ranks per node: at least 1"};
  if (options.services == 0 || options.ranks_per_node % options.services != 0) {
    return Error{
        fmt::format("services: {} does not divide {} ranks per node", options.services, options.ranks_per_node)};
  }
  if (std::uint64_t{options.nodes} * options.ranks_per_node > (1U << 24U)) {
    return Error{"nodes: more than 16,777,216 ranks"};
  }
  if (options.block_bytes == 0 || options.block_bytes > (1U << 30U)) {
    return Error{"block bytes: from 1 to 1,073,741,824"};
  }
  AllocationCount& count = allocation_count();
  count.bytes = count.most_bytes = count.live = count.most_live = 0;
  return Run(options).run();
}

}  // namespace outrigger::sim
