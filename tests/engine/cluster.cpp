#include "cluster.hpp"

#include <cassert>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "reduce/reduce.hpp"

namespace outrigger::engine::testing {
namespace {

constexpr GroupId kWorldGroup{1, 1};

std::byte* pointer(const MemoryRef& memory) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(memory.address));
}

}  // namespace

void ClusterFabric::move(const Block& from, const Block& to, const BlockId* /*name*/,
                         fabric::MoveCompletion& completion) {
  moves.push_back(MoveInFlight{from, to, &completion, std::nullopt, {}});
  cluster_.most_moves_in_flight = std::max(cluster_.most_moves_in_flight, moves.size());
}

void ClusterFabric::reduce(const Reduction& reduction, std::span<const Block> operands,
                           std::span<const BlockId> /*names*/, const Block& into, fabric::MoveCompletion& completion) {
  move(operands.front(), into, nullptr, completion);
  moves.back().reduction = reduction;
  moves.back().others.assign(operands.begin() + 1, operands.end());
}

void ClusterFabric::cancel(fabric::MoveCompletion& completion) {
  std::erase_if(moves, [&](const MoveInFlight& move) { return move.completion == &completion; });
}

void ClusterFabric::send(SpId to, std::span<const std::byte> message) {
  ++cluster_.messages_sent;
  cluster_.letters.push_back(Cluster::Letter{self_, to, {message.begin(), message.end()}});
}

// Slots are numbered by sequence here.
void ClusterFabric::mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) {
  cluster_.marks_[{destination.value(), slot.value()}][source.value()] = mark;
}

void ClusterFabric::complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) {
  Cluster::Completion& completion = cluster_.completions_[{rank.value(), slot.value()}];
  ++completion.count;
  completion.record = record;
}

bool ClusterFabric::has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) {
  assert(cluster_.sp_of_rank_[rank.value()] == self_ && "nobody sees the memory of another service process's rank");
  const auto calls = cluster_.native_calls.find(rank.value());
  return calls != cluster_.native_calls.end() && calls->second.has_passed(operation.sequence, native_calls);
}

Cluster::Cluster(std::vector<std::uint32_t> sp_of_rank, EngineLimits limits, const Registry* registry,
                 std::vector<std::uint32_t> node_of_sp)
    : node_of_sp_(std::move(node_of_sp)), limits_(limits), registry_(registry) {
  std::vector<WorldRank> members;
  std::uint32_t services = 0;
  for (const std::uint32_t sp : sp_of_rank) {
    members.emplace_back(static_cast<std::uint32_t>(members.size()));
    sp_of_rank_.emplace_back(sp);
    services = std::max(services, sp + 1);
  }
  members_ = std::make_shared<const std::vector<WorldRank>>(std::move(members));
  services_.resize(services);
  for (std::uint32_t sp = static_cast<std::uint32_t>(node_of_sp_.size()); sp < services; ++sp)
    node_of_sp_.push_back(sp);
  for (std::uint32_t sp = 0; sp < services; ++sp) start(sp);
}

void Cluster::start(std::uint32_t sp) {
  EngineConfig config;
  config.self = SpId{sp};
  config.epoch = Epoch{services_[sp].epoch};
  config.sp_of_rank = sp_of_rank_;
  config.node_of_sp = node_of_sp_;
  config.limits = limits_;
  config.registry = registry_;
  services_[sp].engine.reset();
  services_[sp].fabric = std::make_unique<ClusterFabric>(*this, SpId{sp});
  services_[sp].engine = std::make_unique<Engine>(config, services_[sp].fabric->seams());
}

void Cluster::restart(std::uint32_t sp) {
  std::erase_if(letters, [sp](const Letter& letter) { return letter.to == SpId{sp} || letter.from == SpId{sp}; });
  ++services_[sp].epoch;
  start(sp);
  for (std::uint32_t other = 0; other < services_.size(); ++other) {
    if (other != sp) services_[other].engine->peer_restarted(SpId{sp}, Epoch{services_[sp].epoch});
  }
}

std::byte Cluster::pattern(std::uint32_t source, std::uint32_t destination, std::uint64_t index) {
  return static_cast<std::byte>(source * 37 + destination * 11 + index * 3 + 1);
}

PostedOperation Cluster::operation(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                   Algorithm algorithm) {
  Buffers& mine = buffers_[{rank, sequence}];
  if (mine.send.empty()) {
    mine.send.resize(bytes * ranks() + 1);
    mine.receive.assign(bytes * ranks() + 1, std::byte{0xEE});
    for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
      for (std::uint64_t i = 0; i < bytes; ++i) mine.send[peer * bytes + i] = pattern(rank, peer, i);
    }
  }
  PostedOperation posted;
  posted.rank = WorldRank{rank};
  posted.slot = SlotIndex{static_cast<std::uint32_t>(sequence)};
  posted.id = OperationId{kWorldGroup, sequence};
  posted.members = members_;
  posted.me = GroupRank{rank};
  posted.algorithm = algorithm;
  posted.digest = operation_digest(Collective::ialltoall, algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  const auto layout = [&](std::vector<std::byte>& buffer) {
    BlockLayout blocks;
    blocks.base.owner = WorldRank{rank};
    blocks.base.address = reinterpret_cast<std::uintptr_t>(buffer.data());
    blocks.stride_bytes = static_cast<std::int64_t>(bytes);
    blocks.block_bytes = bytes;
    return blocks;
  };
  posted.send = layout(mine.send);
  posted.receive = layout(mine.receive);
  return posted;
}

PostedOperation Cluster::gather(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes, Algorithm algorithm) {
  PostedOperation posted = operation(rank, sequence, bytes, algorithm);
  posted.collective = Collective::iallgather;
  posted.digest = operation_digest(posted.collective, algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  posted.send.stride_bytes = 0;
  return posted;
}

PostedOperation Cluster::allreduce(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                   const Reduction& reduction, Algorithm algorithm) {
  PostedOperation posted = gather(rank, sequence, bytes, algorithm);
  posted.collective = Collective::iallreduce;
  posted.digest = operation_digest(posted.collective, posted.algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  posted.reduction = reduction;
  posted.receive.stride_bytes = 0;
  for (std::uint64_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
    const float value = static_cast<float>(rank * 1000 + i) / 7;
    std::memcpy(&buffers_[{rank, sequence}].send[i], &value, sizeof(value));
  }
  return posted;
}

PostedOperation Cluster::reduce(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes, std::uint32_t root) {
  PostedOperation posted = allreduce(rank, sequence, bytes);
  posted.collective = Collective::ireduce;
  posted.root = root;
  posted.digest = operation_digest(posted.collective, posted.algorithm, root, static_cast<std::uint32_t>(ranks()), 0);
  if (rank != root) posted.receive.block_bytes = 0;
  return posted;
}

PostedOperation Cluster::reduce_scatter(std::uint32_t rank, std::uint64_t sequence, std::uint64_t block_bytes) {
  PostedOperation posted = allreduce(rank, sequence, block_bytes * ranks());
  posted.collective = Collective::ireduce_scatter_block;
  posted.digest = operation_digest(posted.collective, posted.algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  posted.receive.block_bytes = block_bytes;
  return posted;
}

PostedOperation Cluster::reduce_scatter(std::uint32_t rank, std::uint64_t sequence,
                                        const std::vector<std::uint64_t>& blocks) {
  const auto own = blocks.begin() + rank;
  PostedOperation posted = allreduce(rank, sequence, std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0}));
  posted.collective = Collective::ireduce_scatter;
  posted.digest = operation_digest(posted.collective, posted.algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  posted.receive.block_bytes = *own;
  posted.part_offset_bytes = std::accumulate(blocks.begin(), own, std::uint64_t{0});
  return posted;
}

PostedOperation Cluster::prefix(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                Collective collective) {
  PostedOperation posted = allreduce(rank, sequence, bytes);
  posted.collective = collective;
  posted.algorithm = Algorithm::chain;
  posted.digest = operation_digest(posted.collective, posted.algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  if (collective == Collective::iexscan && rank == 0) posted.receive.block_bytes = 0;
  return posted;
}

PostedOperation Cluster::to_root(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes, std::uint32_t root) {
  PostedOperation posted = operation(rank, sequence, bytes, Algorithm::ring_pull);
  posted.collective = Collective::igather;
  posted.root = root;
  posted.digest = operation_digest(posted.collective, posted.algorithm, root, static_cast<std::uint32_t>(ranks()), 0);
  posted.send.base.address += root * bytes;
  posted.send.stride_bytes = 0;
  if (rank != root) posted.receive.block_bytes = 0;
  return posted;
}

PostedOperation Cluster::from_root(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                   std::uint32_t root) {
  PostedOperation posted = operation(rank, sequence, bytes, Algorithm::ring_pull);
  posted.collective = Collective::iscatter;
  posted.root = root;
  posted.digest = operation_digest(posted.collective, posted.algorithm, root, static_cast<std::uint32_t>(ranks()), 0);
  if (rank != root) posted.send.block_bytes = 0;
  posted.receive.base.address += root * bytes;
  posted.receive.stride_bytes = 0;
  posted.receive.only = GroupRank{root};
  return posted;
}

PostedOperation Cluster::between_neighbors(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                           const std::vector<std::uint32_t>& destinations,
                                           const std::vector<std::uint32_t>& sources) {
  PostedOperation posted = operation(rank, sequence, bytes, Algorithm::ring_pull);
  posted.collective = Collective::ineighbor_alltoallw;
  posted.digest = operation_digest(posted.collective, posted.algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  const auto limit_to = [&](const std::vector<std::uint32_t>& named, BlockLayout& layout) {
    if (!named.empty()) layout.extents.resize(ranks());
    for (const std::uint32_t neighbor : named) {
      layout.neighbors.emplace_back(neighbor);
      layout.extents[neighbor] = PairExtent{static_cast<std::int64_t>(neighbor * bytes), bytes};
    }
    layout.block_bytes = 0;
    layout.stride_bytes = 0;
  };
  limit_to(destinations, posted.send);
  limit_to(sources, posted.receive);
  return posted;
}

PostedOperation Cluster::barrier(std::uint32_t rank, std::uint64_t sequence) {
  PostedOperation posted = operation(rank, sequence, 0, Algorithm::tree);
  posted.collective = Collective::ibarrier;
  posted.digest = operation_digest(posted.collective, posted.algorithm, 0, static_cast<std::uint32_t>(ranks()), 0);
  return posted;
}

bool Cluster::summed_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t offset, std::uint64_t bytes,
                           std::uint32_t sources) {
  const std::vector<std::byte>& receive = buffers_[{rank, sequence}].receive;
  for (std::uint64_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
    float sum = 0;
    for (std::uint32_t source = 0; source < sources; ++source) {
      const float value = static_cast<float>(source * 1000 + offset + i) / 7;
      sum = source == 0 ? value : sum + value;
    }
    if (std::memcmp(&receive[i], &sum, sizeof(sum)) != 0) return false;
  }
  return receive[bytes] == std::byte{0xEE};
}

PostedOperation Cluster::bcast(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes, std::uint32_t root,
                               Algorithm algorithm) {
  PostedOperation posted = gather(rank, sequence, bytes, algorithm);
  posted.collective = Collective::ibcast;
  posted.root = root;
  posted.digest = operation_digest(posted.collective, algorithm, root, static_cast<std::uint32_t>(ranks()), 0);
  posted.own_block_done = rank == root;
  BlockLayout& empty = rank == root ? posted.receive : posted.send;
  empty.block_bytes = 0;
  posted.receive.base.address = posted.receive.address(GroupRank{root});
  posted.receive.stride_bytes = 0;
  posted.receive.only = GroupRank{root};
  return posted;
}

bool Cluster::gathered_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes) {
  const std::vector<std::byte>& receive = buffers_[{rank, sequence}].receive;
  for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (receive[peer * bytes + i] != pattern(peer, 0, i)) return false;
    }
  }
  return receive.back() == std::byte{0xEE};
}

void Cluster::post(PostedOperation operation) {
  const SpId sp = sp_of_rank_[operation.rank.value()];
  services_[sp.value()].engine->post(std::move(operation));
}

bool Cluster::deliver_one() {
  if (hold_messages || letters.empty()) return false;
  const Letter letter = std::move(letters.front());
  letters.pop_front();
  if (!services_[letter.to.value()].engine->receive(letter.from, letter.message)) std::abort();
  return true;
}

bool Cluster::finish_move(std::uint32_t sp) {
  const bool held = std::exchange(hold_moves, false);
  const bool moved = move_one(services_[sp]);
  hold_moves = held;
  return moved;
}

void Cluster::reduce_now(const ClusterFabric::MoveInFlight& move) {
  const auto bytes = [](const Block& block) { return std::span(pointer(block.memory), block.bytes); };
  Block so_far = move.from;
  contributed_bytes[so_far.memory.owner.value()] += so_far.bytes;
  for (const Block& operand : move.others) {
    reduce::apply(*move.reduction, bytes(so_far), bytes(operand), bytes(move.to));
    ++reductions_done;
    contributed_bytes[operand.memory.owner.value()] += operand.bytes;
    so_far = move.to;
  }
}

bool Cluster::move_one(Service& service) {
  if (hold_moves || service.fabric->moves.empty()) return false;
  const ClusterFabric::MoveInFlight move = service.fabric->moves.front();
  service.fabric->moves.pop_front();
  fabric::MoveOutcome outcome;
  if (faulty_source == move.from.memory.owner) {
    outcome.status = fabric::MoveStatus::memory_fault;
  } else if (move.reduction) {
    reduce_now(move);
  } else {
    std::memcpy(pointer(move.to.memory), pointer(move.from.memory), move.from.bytes);
  }
  ++moves_done;
  ++moves_from_[move.from.memory.owner.value()];
  if (node_of(move.from.memory.owner) != node_of(move.to.memory.owner)) {
    ++moves_between_nodes;
    if (move.reduction) ++reductions_between_nodes;
  }
  move.completion->moved(outcome);
  return true;
}

void Cluster::settle() {
  for (bool progressed = true; progressed;) {
    progressed = false;
    for (Service& service : services_) {
      progressed = service.engine->run() || progressed;
      progressed = move_one(service) || progressed;
    }
    progressed = deliver_one() || progressed;
  }
}

const Cluster::Completion& Cluster::completion(std::uint32_t rank, std::uint64_t sequence) {
  return completions_[{rank, sequence}];
}

bool Cluster::all_completed(std::uint64_t sequence) {
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (!completed(rank, sequence)) return false;
  }
  return true;
}

bool Cluster::bytes_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes) {
  const std::vector<std::byte>& receive = buffers_[{rank, sequence}].receive;
  for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (receive[peer * bytes + i] != pattern(peer, rank, i)) return false;
    }
  }
  return receive.back() == std::byte{0xEE};
}

bool Cluster::idle() {
  return std::all_of(services_.begin(), services_.end(), [](const Service& service) {
    return service.engine->idle() && service.engine->open_operations() == 0 && service.fabric->moves.empty();
  });
}

std::optional<std::string> Cluster::broken() {
  for (Service& service : services_) {
    if (auto broken = service.engine->broken_invariant()) return broken;
  }
  return std::nullopt;
}

}  // namespace outrigger::engine::testing
