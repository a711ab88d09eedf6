#include "sim/whole_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace outrigger::sim {
namespace {

constexpr GroupId kWholeGroup{1, 1};
constexpr std::uint32_t kMostRanks = 1U << 13U;  // the number of an allgather's moves is the square

struct Message {
  SpId from;
  SpId to;
  std::vector<std::byte> bytes;
};

// Shared by all service processes.
struct WholeWorld {
  explicit WholeWorld(const WholeJobOptions& options)
      : places(JobShape{options.nodes, options.ranks_per_node, options.services, options.mapping}),
        sent_by_node(options.nodes) {}

  Places places;
  std::deque<Message> messages;
  std::vector<fabric::MoveCompletion*> moves;  // active
  std::vector<std::uint64_t> sent_by_node;     // bytes to other nodes
  std::uint64_t wire_moves = 0;
  std::uint64_t completions = 0;
  bool failed = false;
};

class CountingFabric final : public fabric::sim::BareFabric {
 public:
  CountingFabric(WholeWorld& world, SpId self) : world_(world), self_(self) {}

  void move(const Block& from, const Block& to, const BlockId* /*name*/, fabric::MoveCompletion& completion) override {
    world_.moves.push_back(&completion);
    const std::uint32_t source = world_.places.node_of(from.memory.owner.value());
    if (source == world_.places.node_of(to.memory.owner.value())) return;
    ++world_.wire_moves;
    world_.sent_by_node[source] += from.bytes;
  }
  void cancel(fabric::MoveCompletion& completion) override { std::erase(world_.moves, &completion); }
  void send(SpId to, std::span<const std::byte> message) override {
    world_.messages.push_back(Message{self_, to, {message.begin(), message.end()}});
  }
  void mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) override {}
  void complete(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& record) override {
    ++world_.completions;
    world_.failed = world_.failed || record.status != CompletionStatus::ok;
  }

 private:
  WholeWorld& world_;
  SpId self_;
};

class WholeJob {
 public:
  explicit WholeJob(const WholeJobOptions& options) : options_(options), world_(options) {
    engine::EngineConfig config = world_.places.engine_config();
    members_ = world_.places.all_ranks();
    for (std::uint32_t sp = 0; sp < world_.places.services(); ++sp) {
      config.self = SpId{sp};
      fabrics_.push_back(std::make_unique<CountingFabric>(world_, config.self));
      engines_.push_back(std::make_unique<engine::Engine>(config, fabrics_.back()->seams()));
    }
  }

  Result<WholeJobResult> run() {
    for (std::uint32_t rank = 0; rank < world_.places.ranks(); ++rank) post(rank);
    do {
      while (send_all()) {
      }
    } while (end_moves());
    return result();
  }

 private:
  void post(std::uint32_t rank) {
    const RegularCall call{options_.collective, options_.algorithm, options_.block_bytes, options_.root};
    engine::PostedOperation operation = regular_post(call, OperationId{kWholeGroup, 0}, members_, rank);
    engines_[world_.places.service_of(rank)]->post(std::move(operation));
  }

  // Every service process runs, and its messages are delivered. False: there was nothing to do.
  bool send_all() {
    bool progressed = false;
    for (const std::unique_ptr<engine::Engine>& engine : engines_) progressed = engine->run() || progressed;
    while (!world_.messages.empty()) {
      const Message message = std::move(world_.messages.front());
      world_.messages.pop_front();
      if (!engines_[message.to.value()]->receive(message.from, message.bytes)) world_.failed = true;
      progressed = true;
    }
    return progressed;
  }

  bool end_moves() {
    const std::vector<fabric::MoveCompletion*> ending = std::exchange(world_.moves, {});
    for (fabric::MoveCompletion* completion : ending) completion->moved(fabric::MoveOutcome());
    return !ending.empty();
  }

  Result<WholeJobResult> result() const {
    const bool idle = std::all_of(engines_.begin(), engines_.end(), [](const auto& engine) { return engine->idle(); });
    if (world_.failed) return Error{"a rank completed with an error, or a message was refused"};
    if (world_.completions != world_.places.ranks() || !idle) return Error{"the operation does not end"};
    WholeJobResult result;
    result.ranks = world_.places.ranks();
    result.services = world_.places.services();
    result.wire_moves = world_.wire_moves;
    for (const std::unique_ptr<engine::Engine>& engine : engines_) {
      const engine::EngineCounters counters = engine->counters();
      result.moves += counters.moves;
      result.reconsidered_segments += counters.reconsidered_segments;
      for (std::size_t kind = 0; kind < counters.sent.size(); ++kind) {
        result.sent[kind].count += counters.sent[kind].count;
        result.sent[kind].bytes += counters.sent[kind].bytes;
      }
    }
    for (const std::uint64_t bytes : world_.sent_by_node) {
      result.wire_bytes += bytes;
      result.most_bytes_from_a_node = std::max(result.most_bytes_from_a_node, bytes);
    }
    result.bytes_from_the_root_node = world_.sent_by_node[world_.places.node_of(options_.root)];
    return result;
  }

  WholeJobOptions options_;
  WholeWorld world_;
  std::shared_ptr<const std::vector<WorldRank>> members_;
  std::vector<std::unique_ptr<CountingFabric>> fabrics_;
  std::vector<std::unique_ptr<engine::Engine>> engines_;
};

}  // namespace

Result<WholeJobResult> count_whole_job(const WholeJobOptions& options) {
  const bool gathers = options.collective == Collective::iallgather || options.collective == Collective::iallgatherv;
  if (!gathers && options.collective != Collective::ibcast) {
    return Error{fmt::format("collective: {} is counted by one service process", name_of(options.collective))};
  }
  if (!has_algorithm(options.collective, options.algorithm)) {
    return Error{fmt::format("algorithm: {} is none of {}", name_of(options.algorithm), name_of(options.collective))};
  }
  if (options.nodes == 0) return Error{"nodes: at least 1"};
  if (options.ranks_per_node == 0) return Error{"ranks per node: at least 1"};
  if (options.services == 0 || options.ranks_per_node % options.services != 0) {
    return Error{
        fmt::format("services: {} does not divide {} ranks per node", options.services, options.ranks_per_node)};
  }
  const std::uint64_t ranks = std::uint64_t{options.nodes} * options.ranks_per_node;
  if (ranks > kMostRanks) return Error{fmt::format("{} ranks: at most {} of a whole job", ranks, kMostRanks)};
  if (options.root >= ranks) return Error{fmt::format("root: {} of {} ranks", options.root, ranks)};
  if (options.block_bytes == 0) return Error{"block bytes: at least 1"};
  return WholeJob(options).run();
}

}  // namespace outrigger::sim
