#include "sim/timing/one_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "fabric/sim/random.hpp"
#include "protocol/wire/peer_messages.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/model_service.hpp"

namespace outrigger::sim::timing {
namespace {

namespace peer = outrigger::peer;

constexpr GroupId kSymbolicGroup{1, 1};
constexpr std::uint32_t kMostSymbolicRanks = 1U << 20U;

std::vector<std::byte> encoded(peer::Body body) {
  peer::Message message;
  message.header = peer::Header{Epoch{1}, Epoch{1}, OperationId{kSymbolicGroup, 0}};
  message.body = std::move(body);
  std::vector<std::byte> bytes;
  peer::encode(message, bytes);
  return bytes;
}

class OneNode final : private model::ServiceWorld {
 public:
  OneNode(const model::Cluster& cluster, const OneNodeOptions& options)
      : options_(options),
        machine_(cluster, options.shape),
        per_service_(options.shape.ranks_per_node / options.shape.services),
        call_{Collective::ialltoall, Algorithm::ring_pull, options.block_bytes, 0},
        members_(machine_.places.all_ranks()) {
    engine::EngineConfig config = machine_.places.engine_config();
    model::ServiceWorld& world = *this;
    for (std::uint32_t sp = 0; sp < options.shape.services; ++sp) {
      config.self = SpId{sp};
      services_.push_back(std::make_unique<model::Service>(machine_, world, config));
    }
  }

  Result<OneNodeResult> run() {
    for (std::uint32_t rank = 0; rank < options_.shape.ranks_per_node; ++rank) {
      machine_.time.at(post_ns(rank), [this, rank] {
        const OperationId id{kSymbolicGroup, 0};
        service(SpId{rank / per_service_}).post(regular_post(call_, id, members_, rank));
      });
    }
    for (std::uint32_t sp = options_.shape.services; sp < machine_.places.services(); ++sp) announce(sp);
    while (machine_.time.step()) {
    }
    return result();
  }

 private:
  // A block of a local rank, for the ranks from `next` up to `end`.
  struct Pending {
    std::uint32_t local;
    std::uint32_t next;
    std::uint32_t end;
  };
  // A block that a peer has requested.
  class Outgoing final : public model::Receiver {
   public:
    Outgoing(OneNode& node, std::uint32_t local, std::uint32_t remote) : node_(node), local_(local), remote_(remote) {}
    void chunk_arrived(std::uint64_t /*bytes*/, bool last) override {
      if (last) node_.release(this, local_, remote_);
    }

   private:
    OneNode& node_;
    std::uint32_t local_;
    std::uint32_t remote_;
  };

  // When a rank's service process sees its post.
  [[nodiscard]] std::uint64_t post_ns(std::uint32_t rank) const {
    fabric::sim::Random random(fabric::sim::Random::mix(options_.seed) ^ rank);
    return random.within({0, machine_.cluster.noise.skew_ns}) + machine_.cluster.mpi.post_ns +
           machine_.cluster.service.notice_ns;
  }
  [[nodiscard]] std::uint64_t control_ns(model::Place from, model::Place to, std::uint64_t bytes) const {
    return machine_.network.control_ns(machine_.topology.route(from, to), bytes);
  }

  // A peer announces its ranks to each of this node's service processes, in its own order of service processes.
  void announce(std::uint32_t sp) {
    std::uint64_t posted_ns = 0;
    for (std::uint32_t rank = sp * per_service_; rank < (sp + 1) * per_service_; ++rank) {
      posted_ns = std::max(posted_ns, post_ns(rank) + machine_.cluster.service.event_ns);
    }
    const std::uint32_t services = machine_.places.services();
    for (std::uint32_t to = 0; to < options_.shape.services; ++to) {
      const std::uint64_t turn = (to + services - sp) % services;
      const std::uint64_t said_ns = posted_ns + turn * machine_.cluster.service.message_ns;
      machine_.time.at(said_ns, [this, sp, to] { say(SpId{sp}, SpId{to}); });
    }
  }

  void say(SpId from, SpId to) {
    auto batch = std::make_shared<model::Batch>();
    batch->from = from;
    batch->to = to;
    const std::uint32_t first = from.value() * per_service_;
    for (std::uint32_t rank = first; rank < first + per_service_; ++rank) {
      peer::Announce announce;
      announce.rank = WorldRank{rank};
      announce.group_rank = GroupRank{rank};
      announce.collective = call_.collective;
      announce.algorithm = call_.algorithm;
      announce.digest = operation_digest(call_.collective, call_.algorithm, 0, machine_.places.ranks(), 0);
      announce.members = announce.count = per_service_;
      announce.block_bytes = call_.block_bytes;
      announce.stride_bytes = static_cast<std::int64_t>(call_.block_bytes);
      batch->messages.push_back(encoded(std::move(announce)));
      batch->bytes += batch->messages.back().size();
    }
    arrive(std::move(batch));
  }

  void arrive(std::shared_ptr<model::Batch> batch) {
    const std::uint64_t way_ns = control_ns(machine_.place_of_service(batch->from.value()),
                                            machine_.place_of_service(batch->to.value()), batch->bytes);
    machine_.time.after(way_ns, [this, said = std::move(batch)] { service(said->to).receive(said); });
  }

  void deliver(const std::shared_ptr<const model::Batch>& batch) override {
    if (batch->to.value() < services_.size()) return service(batch->to).receive(batch);
    for (const std::vector<std::byte>& bytes : batch->messages) {
      const std::optional<peer::Message> message = peer::decode(bytes);
      const auto* announce = message ? std::get_if<peer::Announce>(&message->body) : nullptr;
      if (announce == nullptr) continue;  // a release: symbolic peers hold nothing
      const std::uint32_t first = batch->to.value() * per_service_ + announce->first;
      pending_.push_back(Pending{announce->group_rank.value(), first, first + announce->count});
    }
    while (owed_ != 0 && !pending_.empty()) {
      --owed_;
      ask();
    }
  }

  void asked_for_block() override {
    if (pending_.empty()) {
      ++owed_;
    } else {
      ask();
    }
  }

  // A peer requests the next block.
  void ask() {
    Pending pending = pending_.front();
    pending_.pop_front();
    const std::uint32_t remote = pending.next++;
    if (pending.next != pending.end) pending_.push_back(pending);
    const model::Place from = machine_.place_of_rank(pending.local);
    const model::Place asker = machine_.place_of_service(machine_.places.service_of(remote));
    const bool staged = machine_.cluster.service.reach == model::ServiceReach::staged;
    const model::Place to = staged ? asker : machine_.place_of_rank(remote);
    auto* const outgoing = new Outgoing(*this, pending.local, remote);  // until it has arrived: release()
    outgoing_bytes_ += call_.block_bytes;
    machine_.time.after(control_ns(asker, from, 64), [this, from, to, outgoing] {
      machine_.network.send(machine_.topology.route(from, to), call_.block_bytes, *outgoing);
    });
  }

  void release(const Outgoing* outgoing, std::uint32_t local, std::uint32_t remote) {
    delete outgoing;
    auto batch = std::make_shared<model::Batch>();
    batch->from = SpId{machine_.places.service_of(remote)};
    batch->to = SpId{local / per_service_};
    batch->messages.push_back(encoded(peer::Release{GroupRank{local}, GroupRank{remote}}));
    batch->bytes = batch->messages.back().size();
    const model::ServiceModel& costs = machine_.cluster.service;
    machine_.time.after(costs.event_ns + costs.mark_ns + costs.message_ns,
                        [this, said = std::move(batch)] { arrive(said); });
  }

  model::Service& service(SpId id) override { return *services_[id.value()]; }
  bool copy_by_rank(WorldRank /*rank*/, std::uint64_t /*bytes*/, std::function<void()> /*done*/,
                    std::function<void()> /*left*/) override {
    return false;
  }
  [[nodiscard]] Lender lender(WorldRank /*rank*/) const override { return {}; }
  void completed(WorldRank /*rank*/, SlotIndex /*slot*/, bool ok) override {
    failed_ = failed_ || !ok;
    if (++completed_ == options_.shape.ranks_per_node) end_ns_ = machine_.time.now_ns();
  }

  Result<OneNodeResult> result() const {
    if (failed_ || completed_ != options_.shape.ranks_per_node || !pending_.empty() || owed_ != 0) {
      return Error{"the operation does not end"};
    }
    OneNodeResult result;
    result.pure_ns = end_ns_;
    result.link_bytes = outgoing_bytes_;
    result.busy_ns = machine_.service_busy_ns[0] / services_.size();
    for (const auto& service : services_) {
      const engine::EngineCounters counters = service->engine().counters();
      result.moves += counters.moves / services_.size();
      for (const auto& kind : counters.sent) result.messages_sent += kind.count / services_.size();
      for (const auto& kind : counters.received) result.messages_received += kind.count / services_.size();
    }
    return result;
  }

  OneNodeOptions options_;
  model::Machine machine_;
  std::uint32_t per_service_;
  RegularCall call_;
  std::shared_ptr<const std::vector<WorldRank>> members_;
  std::vector<std::unique_ptr<model::Service>> services_;
  std::deque<Pending> pending_;
  std::uint64_t owed_ = 0;  // requests before there was a matching announcement
  std::uint64_t outgoing_bytes_ = 0;
  std::uint64_t end_ns_ = 0;
  std::uint32_t completed_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<OneNodeResult> time_one_node(const model::Cluster& cluster, const OneNodeOptions& options) {
  const JobShape& shape = options.shape;
  if (cluster.network.wire != model::WireKind::memory) {
    return Error{"one node: network.wire has to be \"memory\"; peers cannot be symbolic if processors carry bytes"};
  }
  if (shape.nodes < 2 || shape.nodes > cluster.nodes) {
    return Error{fmt::format("nodes: from 2 to {}, as many as the cluster has", cluster.nodes)};
  }
  if (shape.services == 0 || shape.ranks_per_node == 0 || shape.ranks_per_node % shape.services != 0) {
    return Error{fmt::format("services: {} does not divide {} ranks per node", shape.services, shape.ranks_per_node)};
  }
  if (std::uint64_t{shape.nodes} * shape.ranks_per_node > kMostSymbolicRanks) {
    return Error{fmt::format("nodes: more than {} ranks", kMostSymbolicRanks)};
  }
  if (shape.mapping != Mapping::contiguous) return Error{"mapping: an all-to-all is the same for all mappings"};
  if (options.block_bytes == 0) return Error{"bytes: at least 1"};
  return OneNode(cluster, options).run();
}

}  // namespace outrigger::sim::timing
