#include "sim/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "protocol/peer_messages.hpp"
#include "sim/scenario.hpp"

namespace outrigger::sim {
namespace {

using fabric::CompletionRecord;
using fabric::sim::RankMemory;
using fabric::sim::SimFabric;
using fabric::sim::World;

std::string piece_name(std::uint32_t piece) {
  return piece == peer::kWholeBlock ? "block" : fmt::format("part {}", piece);
}

// Everything must be over by then: far more than any fault of the options adds up to.
constexpr std::uint64_t kTimeLimit_ns = 1'000'000'000'000;
constexpr std::uint64_t kStepLimit = 20'000'000;

// One operation of one rank: what would be a slot in its segment, which outlives the service process.
struct Slot {
  std::uint32_t group = 0;
  std::uint64_t sequence = 0;
  GroupRank me;
  engine::BlockLayout send;
  engine::BlockLayout receive;
  std::uint32_t send_buffer = 0;
  std::uint32_t receive_buffer = 0;
  std::vector<std::byte> image;         // what the receive buffer must hold in the end
  std::vector<std::uint8_t> delivered;  // marks
  bool completed = false;
};

struct Rank {
  std::vector<Slot> slots;
  std::size_t next_step = 0;
  std::map<std::uint32_t, std::uint64_t> posted;  // group -> operations posted
  std::map<std::uint32_t, std::uint64_t> done;    // group -> operations completed
  std::map<std::uint32_t, bool> freed;            // group -> freed
  bool attached = true;                           // its service process knows it
  bool absent = false;                            // posts nothing until all is quiet
};

struct Service {
  SpId id;
  std::uint32_t epoch = 1;
  bool alive = true;
  std::unique_ptr<SimFabric> fabric;
  std::unique_ptr<engine::Engine> engine;
  std::deque<std::function<void(engine::Engine&)>> inbox;
  bool step_scheduled = false;
};

class Simulation final : public fabric::sim::Observer {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        scenario_(make_scenario(options.seed, options.algorithm, options.faults)),
        world_(options.seed, options.faults, scenario_.ranks(), *this),
        ranks_(scenario_.ranks()) {}

  SimulationResult run();

  void chunk_moves(SpId by, const Block& from, const Block& to) override;
  void eager_read(SpId by, const Block& from) override;
  void move_ended(SpId by) override { wake(service(by)); }
  void marked(SpId by, WorldRank destination, SlotIndex slot, GroupRank source) override;
  void completed(SpId by, WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  void arrived(SpId from, SpId to, std::vector<std::byte> message) override;
  void sent(SpId from, SpId to, std::span<const std::byte> message) override;

 private:
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (options_.trace) {
      fmt::print("{:>10} ns  {}\n", world_.time.now_ns(), fmt::format(format, std::forward<Args>(args)...));
    }
  }
  void broken(std::string what) {
    if (!result_.broken) result_.broken = std::move(what);
  }
  Service& service(SpId id) { return services_[id.value()]; }
  Service& service_of(WorldRank rank) { return service(scenario_.sp_of_rank[rank.value()]); }

  void start_service(Service& service);
  void wake(Service& service);
  void step(Service& service);
  void tell(Service& service, std::function<void(engine::Engine&)> what);

  void schedule_post(WorldRank rank);
  void post_next(WorldRank rank);
  std::size_t make_slot(WorldRank rank, const Step& step);
  engine::BlockLayout make_layout(WorldRank rank, const OperationPlan& plan, GroupRank me, bool sends,
                                  std::uint32_t& buffer);
  void fill(const Slot& slot, WorldRank rank);
  engine::PostedOperation posted(WorldRank rank, std::size_t slot) const;
  void free_group(WorldRank rank, std::uint32_t group);

  void crash(Service& service);
  void restart(Service& service);
  void reattach(WorldRank rank, std::uint32_t epoch);

  std::byte pattern(const Slot& slot, std::size_t source, std::size_t destination, std::uint64_t index) const;
  bool image_holds(WorldRank rank, const Slot& slot);
  CompletionStatus expected_status(const Slot& slot, const OperationPlan& plan) const;
  void count_crossing(const Slot& target, const Block& from, const Block& to);
  void check_completion(WorldRank rank, const Slot& slot, const CompletionRecord& record);
  // True: with all quiet, a rank that was away goes on.
  bool recall_absent();
  bool may_wait(const Slot& slot) const;
  void check_waiting();
  void check_end();

  const OperationPlan& plan_of(const Slot& slot) const {
    return scenario_.groups[slot.group].operations[slot.sequence];
  }

  const SimulationOptions& options_;
  Scenario scenario_;
  World world_;
  std::vector<Service> services_;
  std::vector<Rank> ranks_;
  SimulationResult result_;
  // To which rank each byte of a block has come from another node (nothing: none yet): by group, sequence, source,
  // node.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::size_t, std::uint32_t>, std::vector<std::optional<WorldRank>>>
      crossed_;
};

// ---------------------------------------------------------------- service processes

void Simulation::start_service(Service& service) {
  engine::EngineConfig config;
  config.self = service.id;
  config.epoch = Epoch{service.epoch};
  config.sp_of_rank = scenario_.sp_of_rank;
  config.node_of_sp = scenario_.node_of_sp;
  config.limits = scenario_.limits;
  config.registry = options_.registry;
  service.fabric = std::make_unique<SimFabric>(world_, service.id);
  service.engine = std::make_unique<engine::Engine>(std::move(config), *service.fabric);
  service.alive = true;
}

void Simulation::tell(Service& service, std::function<void(engine::Engine&)> what) {
  if (!service.alive) return;
  service.inbox.push_back(std::move(what));
  wake(service);
}

void Simulation::wake(Service& service) {
  if (service.step_scheduled || !service.alive) return;
  service.step_scheduled = true;
  std::uint64_t delay = world_.random.within(world_.faults.step_delay_ns);
  if (world_.random.chance(world_.faults.service_stall_chance)) {
    delay += world_.random.within(world_.faults.service_stall_ns);
  }
  world_.time.after(delay, [this, &service, epoch = service.epoch] {
    if (service.alive && service.epoch == epoch) step(service);
  });
}

void Simulation::step(Service& service) {
  service.step_scheduled = false;
  // Everything that is here, or only the first of it: the engine must not care.
  std::size_t count = world_.random.chance(0.5) ? service.inbox.size() : 1;
  for (; count != 0 && !service.inbox.empty(); --count) {
    const std::function<void(engine::Engine&)> what = std::move(service.inbox.front());
    service.inbox.pop_front();
    what(*service.engine);
  }
  service.engine->run();
  if (std::optional<std::string> invariant = service.engine->broken_invariant()) {
    broken(fmt::format("service process {}: {}", service.id.value(), *invariant));
  }
  if (!service.inbox.empty()) wake(service);
}

void Simulation::arrived(SpId from, SpId to, std::vector<std::byte> message) {
  tell(service(to), [this, from, message = std::move(message)](engine::Engine& engine) {
    if (!engine.receive(from, message)) broken(fmt::format("message from {} refused as malformed", from.value()));
  });
}

void Simulation::sent(SpId from, SpId to, std::span<const std::byte> message) {
  ++result_.messages;
  if (message.size() > std::max<std::size_t>(scenario_.limits.message_bytes, peer::announce_bytes() + 16)) {
    broken(fmt::format("message of {} bytes is longer than the limit", message.size()));
  }
  if (!options_.trace) return;
  const std::optional<peer::Message> decoded = peer::decode(message);
  static constexpr const char* kNames[] = {"announce", "delivered", "release", "finished", "refusal",
                                           "want",     "copy",      "done",    "quiet"};
  if (!decoded) return broken("a sent message does not decode");
  const std::uint64_t group = decoded->header.operation.group.low - 1;
  const std::uint64_t sequence = decoded->header.operation.sequence;
  std::string detail;
  if (const auto* announce = std::get_if<peer::Announce>(&decoded->body)) {
    detail = fmt::format("of rank {}{}", announce->group_rank.value(), announce->again ? ", again" : "");
  } else if (const auto* release = std::get_if<peer::Release>(&decoded->body)) {
    detail =
        fmt::format("{} -> {} {}", release->source.value(), release->destination.value(), name_of(release->status));
  } else if (const auto* delivered = std::get_if<peer::Delivered>(&decoded->body)) {
    detail = fmt::format("{} -> {} {}", delivered->source.value(), delivered->destination.value(),
                         name_of(delivered->status));
  } else if (const auto* finished = std::get_if<peer::Finished>(&decoded->body)) {
    detail = fmt::format("world rank {} {}", finished->rank.value(), name_of(finished->status));
  } else if (const auto* refusal = std::get_if<peer::Refusal>(&decoded->body)) {
    detail = fmt::format("of {} by {}", refusal->to.value(), refusal->from.value());
  }
  if (const auto* want = std::get_if<peer::Want>(&decoded->body)) {
    detail = fmt::format("{} of {}", piece_name(want->piece), want->source.value());
  } else if (const auto* copy = std::get_if<peer::Copy>(&decoded->body)) {
    static constexpr const char* kWhere[] = {"?", "not here", "here", "elsewhere"};
    detail = fmt::format("{} of {}: {} (rank {}, service {})", piece_name(copy->piece), copy->source.value(),
                         kWhere[static_cast<std::size_t>(copy->where)], copy->holder.value(), copy->service.value());
  }
  trace("service {} -> {}: {} group {} operation {} {}", from.value(), to.value(), kNames[decoded->body.index()], group,
        sequence, detail);
}

// ---------------------------------------------------------------- ranks

std::byte Simulation::pattern(const Slot& slot, std::size_t source, std::size_t destination,
                              std::uint64_t index) const {
  if (plan_of(slot).gathers()) destination = 0xFFFF;  // the same for all
  const std::uint64_t key = (std::uint64_t{slot.group} << 48U) ^ (slot.sequence << 32U) ^ (source << 16U) ^ destination;
  return static_cast<std::byte>(fabric::sim::Random::mix(key ^ (options_.seed << 20U) ^ ((index / 8) << 56U)) >>
                                (index % 8 * 8));
}

engine::BlockLayout Simulation::make_layout(WorldRank rank, const OperationPlan& plan, GroupRank me, bool sends,
                                            std::uint32_t& buffer) {
  const std::size_t size = plan.sent.size();
  const auto bytes_of = [&](std::size_t peer) {
    return sends ? plan.sent[me.value()][peer] : plan.expected[peer][me.value()];
  };
  RankMemory& memory = world_.memory[rank.value()];
  engine::BlockLayout layout;
  layout.base.owner = rank;
  layout.base.region = kPrivateRegion;
  if (sends && plan.gathers()) {
    const std::size_t any = plan.rooted() && me.value() == plan.root ? (plan.root + 1) % size : 0;
    layout.block_bytes = bytes_of(any);  // stride 0: one block for all
    buffer = memory.add(layout.block_bytes + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  if (plan.rooted()) {
    layout.block_bytes = bytes_of(plan.root);
    layout.only = GroupRank{plan.root};
    buffer = memory.add(layout.block_bytes + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  if (plan.regular()) {
    layout.block_bytes = bytes_of(0);
    layout.stride_bytes = static_cast<std::int64_t>(layout.block_bytes + world_.random.below(3));
    buffer = memory.add(static_cast<std::size_t>(layout.stride_bytes) * size + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  world_.random.shuffle(order);
  layout.extents.resize(size);
  std::uint64_t offset = world_.random.below(4);
  for (const std::size_t peer : order) {
    layout.extents[peer] = PairExtent{static_cast<std::int64_t>(offset), bytes_of(peer)};
    offset += bytes_of(peer) + world_.random.below(4);
  }
  buffer = memory.add(offset + 1);
  // The base may be anywhere, so offsets may be negative.
  const std::uint64_t base = world_.random.below(offset + 1);
  for (PairExtent& extent : layout.extents) extent.offset_bytes -= static_cast<std::int64_t>(base);
  layout.base.address = RankMemory::address_of(buffer, base);
  return layout;
}

void Simulation::fill(const Slot& slot, WorldRank rank) {
  RankMemory& memory = world_.memory[rank.value()];
  const OperationPlan& plan = plan_of(slot);
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const Block block = slot.send.block(GroupRank{static_cast<std::uint32_t>(peer)});
    const std::span<std::byte> bytes = memory.resolve(block.memory.address, block.bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(slot, slot.me.value(), peer, i);
  }
}

std::size_t Simulation::make_slot(WorldRank rank, const Step& step) {
  const GroupPlan& group = scenario_.groups[step.group];
  const OperationPlan& plan = group.operations[step.sequence];
  Slot slot;
  slot.group = step.group;
  slot.sequence = step.sequence;
  const auto self = std::find(group.members->begin(), group.members->end(), rank) - group.members->begin();
  slot.me = GroupRank{static_cast<std::uint32_t>(self)};
  slot.receive = make_layout(rank, plan, slot.me, false, slot.receive_buffer);
  const std::span<std::byte> receive = world_.memory[rank.value()].buffer(slot.receive_buffer);
  for (std::byte& byte : receive) byte = static_cast<std::byte>(world_.random.next());
  if (plan.in_place[slot.me.value()] != 0) {
    slot.send_buffer = slot.receive_buffer;
    slot.send.base = slot.receive.block(slot.me).memory;
    slot.send.block_bytes = slot.receive.block(slot.me).bytes;
  } else {
    slot.send = make_layout(rank, plan, slot.me, true, slot.send_buffer);
  }
  slot.delivered.assign(group.members->size(), 0);
  fill(slot, rank);
  slot.image.assign(receive.begin(), receive.end());
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const Block block = slot.receive.block(GroupRank{static_cast<std::uint32_t>(peer)});
    const std::uint64_t bytes = std::min(plan.sent[peer][slot.me.value()], block.bytes);
    const std::uint64_t offset = block.memory.address - RankMemory::address_of(slot.receive_buffer, 0);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      slot.image[offset + i] = pattern(slot, peer, slot.me.value(), i);
      if (peer == slot.me.value() && plan.own_block_done[peer] != 0) receive[offset + i] = slot.image[offset + i];
    }
  }
  ranks_[rank.value()].slots.push_back(std::move(slot));
  return ranks_[rank.value()].slots.size() - 1;
}

engine::PostedOperation Simulation::posted(WorldRank rank, std::size_t index) const {
  const Slot& slot = ranks_[rank.value()].slots[index];
  const GroupPlan& group = scenario_.groups[slot.group];
  const OperationPlan& plan = plan_of(slot);
  engine::PostedOperation operation;
  operation.rank = rank;
  operation.slot = SlotIndex{static_cast<std::uint32_t>(index)};
  operation.id = OperationId{group.id, slot.sequence};
  operation.members = group.members;
  operation.me = slot.me;
  operation.collective = plan.collective;
  operation.algorithm = options_.algorithm;
  operation.root = plan.root;
  operation.digest = operation_digest(plan.collective, options_.algorithm, plan.root,
                                      static_cast<std::uint32_t>(group.members->size()), plan.differs[slot.me.value()]);
  operation.send = slot.send;
  operation.receive = slot.receive;
  operation.own_block_done = plan.own_block_done[slot.me.value()] != 0;
  return operation;
}

void Simulation::schedule_post(WorldRank rank) {
  if (world_.random.chance(world_.faults.absent_chance)) {
    ranks_[rank.value()].absent = true;
    return;
  }
  std::uint64_t delay = world_.random.within(world_.faults.post_delay_ns);
  if (world_.random.chance(world_.faults.late_post_chance)) delay += world_.random.within(world_.faults.late_post_ns);
  world_.time.after(delay, [this, rank] { post_next(rank); });
}

void Simulation::post_next(WorldRank rank) {
  Rank& state = ranks_[rank.value()];
  const std::vector<Step>& steps = scenario_.steps[rank.value()];
  if (state.absent || state.next_step == steps.size()) return;
  const Step& step = steps[state.next_step];
  const bool new_round = state.next_step != 0 && steps[state.next_step - 1].round != step.round;
  const bool open =
      std::any_of(state.slots.begin(), state.slots.end(), [](const Slot& slot) { return !slot.completed; });
  if (new_round && open) return;  // completed() comes back here
  ++state.next_step;
  const std::size_t slot = make_slot(rank, step);
  ++state.posted[step.group];
  trace("rank {} posts group {} operation {} ({})", rank.value(), step.group, step.sequence,
        name_of(scenario_.groups[step.group].operations[step.sequence].collective));
  if (state.attached) {
    tell(service_of(rank), [operation = posted(rank, slot)](engine::Engine& engine) { engine.post(operation); });
  }
  schedule_post(rank);
}

void Simulation::free_group(WorldRank rank, std::uint32_t group) {
  ranks_[rank.value()].freed[group] = true;
  if (!ranks_[rank.value()].attached) return;
  tell(service_of(rank),
       [rank, id = scenario_.groups[group].id](engine::Engine& engine) { engine.forget_group(rank, id); });
}

// ---------------------------------------------------------------- crashes

void Simulation::crash(Service& service) {
  if (!service.alive || result_.crashes >= world_.faults.most_crashes) return;
  trace("service {} crashes (epoch {})", service.id.value(), service.epoch);
  ++result_.crashes;
  service.alive = false;
  service.fabric->crash();
  world_.lose_messages_of(service.id);
  service.inbox.clear();
  service.step_scheduled = false;
  service.engine.reset();
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (scenario_.sp_of_rank[rank] == service.id) ranks_[rank].attached = false;
  }
  world_.time.after(world_.random.within(world_.faults.restart_delay_ns), [this, &service] { restart(service); });
}

void Simulation::restart(Service& service) {
  ++service.epoch;
  start_service(service);
  trace("service {} is back (epoch {})", service.id.value(), service.epoch);
  for (Service& peer : services_) {
    if (peer.id == service.id || !peer.alive) continue;
    world_.time.after(world_.random.within(world_.faults.notice_delay_ns),
                      [this, &peer, id = service.id, epoch = service.epoch] {
                        tell(peer, [id, epoch](engine::Engine& engine) { engine.peer_restarted(id, Epoch{epoch}); });
                      });
    // The new one may be told which incarnations the others are, or find out by their messages.
    if (world_.random.chance(0.5)) {
      tell(service,
           [id = peer.id, epoch = peer.epoch](engine::Engine& engine) { engine.peer_restarted(id, Epoch{epoch}); });
    }
  }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (scenario_.sp_of_rank[rank] != service.id) continue;
    world_.time.after(world_.random.within(world_.faults.reattach_delay_ns),
                      [this, rank, epoch = service.epoch] { reattach(WorldRank{rank}, epoch); });
  }
}

void Simulation::reattach(WorldRank rank, std::uint32_t epoch) {
  Service& service = service_of(rank);
  if (!service.alive || service.epoch != epoch) return;
  Rank& state = ranks_[rank.value()];
  state.attached = true;
  std::vector<engine::PostedOperation> replayed;
  for (std::size_t slot = 0; slot < state.slots.size(); ++slot) {
    if (state.slots[slot].completed) continue;
    replayed.push_back(posted(rank, slot));
    if (world_.random.chance(0.9) || std::any_of(state.slots[slot].delivered.begin(), state.slots[slot].delivered.end(),
                                                 [](auto m) { return m != 0; })) {
      replayed.back().delivered = state.slots[slot].delivered;
    }
  }
  result_.replayed_posts += replayed.size();
  trace("rank {} is replayed with {} unfinished operations", rank.value(), replayed.size());
  const auto restore = [this, rank, posted = state.posted](engine::Engine& engine) {
    for (const auto& [group, count] : posted) engine.restore_progress(rank, scenario_.groups[group].id, count);
  };
  const auto forget = [this, rank, freed = state.freed](engine::Engine& engine) {
    for (const auto& [group, is_freed] : freed) {
      if (is_freed) engine.forget_group(rank, scenario_.groups[group].id);
    }
  };
  const auto replay = [replayed](engine::Engine& engine) {
    for (const engine::PostedOperation& operation : replayed) engine.post(operation);
  };
  if (world_.random.chance(0.5)) {
    tell(service, [restore, replay, forget](engine::Engine& engine) {
      restore(engine);
      replay(engine);
      forget(engine);
    });
  } else {
    tell(service, replay);
    tell(service, restore);
    tell(service, forget);
  }
}

// ---------------------------------------------------------------- checks

void Simulation::chunk_moves(SpId by, const Block& from, const Block& to) {
  ++result_.moved_chunks;
  const auto slot_of = [this](const MemoryRef& memory, bool sends) -> const Slot* {
    const std::uint32_t buffer = RankMemory::buffer_of(memory.address);
    for (const Slot& slot : ranks_[memory.owner.value()].slots) {
      if ((sends ? slot.send_buffer : slot.receive_buffer) == buffer) return &slot;
    }
    return nullptr;
  };
  const Slot* source = slot_of(from.memory, true);
  const Slot* target = slot_of(to.memory, false);
  const bool passed_on = target != nullptr && passes_on(plan_of(*target).collective, options_.algorithm);
  if (source == nullptr && passed_on) source = slot_of(from.memory, false);
  const auto describe = [&](const char* what) {
    return fmt::format("{} (service process {} moves from rank {} to rank {})", what, by.value(),
                       from.memory.owner.value(), to.memory.owner.value());
  };
  if (source == nullptr || target == nullptr) return broken(describe("a move leaves the posted buffers"));
  if (source->completed) broken(describe("released too early: a move reads a completed operation's buffer"));
  if (target->completed) broken(describe("a move writes a completed operation's receive buffer"));
  const bool once = options_.algorithm == Algorithm::node_ring || options_.algorithm == Algorithm::hierarchical;
  if (once && !plan_of(*target).rooted()) count_crossing(*target, from, to);
}

// No byte of a block comes to a node twice. (A broadcast's ranks complete before late ones of their node have come.)
void Simulation::count_crossing(const Slot& target, const Block& from, const Block& to) {
  const OperationPlan& plan = plan_of(target);
  const std::uint32_t node = scenario_.node_of(to.memory.owner);
  if (scenario_.node_of(from.memory.owner) == node || plan.wrong_kinds || plan.wrong_sizes) return;
  if (result_.crashes != 0) return;
  const std::vector<WorldRank>& members = *scenario_.groups[target.group].members;
  // Ranks that contribute nothing may be done before the others of their node have come.
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (scenario_.node_of(members[i]) == node && plan.sent[i][i] == 0) return;
  }
  for (std::size_t source = 0; source < members.size(); ++source) {
    const Block block = target.receive.block(GroupRank{static_cast<std::uint32_t>(source)});
    if (to.memory.address < block.memory.address || to.memory.address >= block.memory.address + block.bytes) continue;
    auto& crossed = crossed_[{target.group, target.sequence, source, node}];
    crossed.resize(block.bytes);
    const auto first = crossed.begin() + static_cast<std::ptrdiff_t>(to.memory.address - block.memory.address);
    const auto last = first + static_cast<std::ptrdiff_t>(to.bytes);
    const WorldRank owner = to.memory.owner;
    const auto other = [owner](const std::optional<WorldRank>& before) { return before && *before != owner; };
    if (std::any_of(first, last, other)) broken(fmt::format("the block of {} comes to node {} twice", source, node));
    std::fill(first, last, owner);
  }
}

void Simulation::eager_read(SpId by, const Block& from) {
  ++result_.blocks_eager;
  const std::uint32_t buffer = RankMemory::buffer_of(from.memory.address);
  const auto& slots = ranks_[from.memory.owner.value()].slots;
  const auto slot =
      std::find_if(slots.begin(), slots.end(), [&](const Slot& each) { return each.send_buffer == buffer; });
  if (slot == slots.end()) return broken(fmt::format("service process {} sends ahead what was not posted", by.value()));
  if (slot->completed) broken(fmt::format("service process {} reads ahead from a completed operation", by.value()));
}

void Simulation::marked(SpId by, WorldRank destination, SlotIndex slot_index, GroupRank source) {
  Rank& rank = ranks_[destination.value()];
  if (slot_index.value() >= rank.slots.size()) return broken("a mark names a slot that was never posted");
  Slot& slot = rank.slots[slot_index.value()];
  if (source.value() >= slot.delivered.size()) return broken("a mark names a rank outside the group");
  if (slot.completed) return broken("a mark after the completion");
  trace("service {} marks group {} operation {} {} -> {}", by.value(), slot.group, slot.sequence, source.value(),
        slot.me.value());
  slot.delivered[source.value()] = 1;
  const Block block = slot.receive.block(source);
  const std::uint64_t bytes = std::min(block.bytes, plan_of(slot).sent[source.value()][slot.me.value()]);
  const std::uint64_t offset = block.memory.address - RankMemory::address_of(slot.receive_buffer, 0);
  const std::span<std::byte> here =
      world_.memory[destination.value()].buffer(slot.receive_buffer).subspan(offset, bytes);
  if (bytes != 0 && std::memcmp(here.data(), slot.image.data() + offset, bytes) != 0) {
    broken(fmt::format("rank {}: block of {} marked before its bytes are there", destination.value(), source.value()));
  }
}

bool Simulation::image_holds(WorldRank rank, const Slot& slot) {
  const std::span<std::byte> here = world_.memory[rank.value()].buffer(slot.receive_buffer);
  return std::equal(here.begin(), here.end(), slot.image.begin(), slot.image.end());
}

CompletionStatus Simulation::expected_status(const Slot& slot, const OperationPlan& plan) const {
  const std::size_t me = slot.me.value();
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const bool own_done = peer == me && plan.own_block_done[me] != 0;
    // Where nothing is expected nobody waits, so a surplus may or may not be noticed.
    if (!own_done && plan.expected[peer][me] != 0 && plan.sent[peer][me] > plan.expected[peer][me]) {
      return CompletionStatus::truncated;
    }
  }
  return CompletionStatus::ok;
}

void Simulation::check_completion(WorldRank rank, const Slot& slot, const CompletionRecord& record) {
  const OperationPlan& plan = plan_of(slot);
  const std::string what = fmt::format("rank {} group {} operation {}", rank.value(), slot.group, slot.sequence);
  if (plan.wrong_kinds) {
    // Whoever exchanges bytes with the rank that differs must be told, unless the one who knew has crashed.
    const std::size_t me = slot.me.value();
    for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
      if (plan.differs[peer] == plan.differs[me] || result_.crashes != 0) continue;
      if (plan.expected[peer][me] == 0 || plan.sent[peer][me] == 0) continue;
      if (record.status != CompletionStatus::mismatch) broken(what + ": ranks disagree, and it was not told");
    }
    if (record.status == CompletionStatus::ok && result_.crashes == 0 && !image_holds(rank, slot)) {
      broken(what + ": wrong bytes at completion");
    }
    return;
  }
  const bool surplus_unseen = plan.sent != plan.expected && record.status == CompletionStatus::truncated;
  if (record.status != expected_status(slot, plan) && !surplus_unseen) {
    // A truncation noticed by an incarnation that has crashed may be forgotten.
    if (record.status != CompletionStatus::ok || result_.crashes == 0) {
      broken(fmt::format("{}: completed as '{}'", what, name_of(record.status)));
    }
  }
  if (!image_holds(rank, slot)) broken(what + ": wrong bytes at completion");
  std::uint64_t received = 0;
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const std::size_t me = slot.me.value();
    const bool own_done = peer == me && plan.own_block_done[me] != 0;
    const std::uint64_t bytes = std::min(plan.sent[peer][me], plan.expected[peer][me]);
    if (own_done || bytes == 0) continue;
    received += bytes;
    if (slot.delivered[peer] == 0 && options_.check_marks_at_completion) {
      broken(fmt::format("{}: completed while the block of {} is not marked as delivered", what, peer));
    }
  }
  const std::uint64_t counted =
      std::accumulate(record.bytes_by_reach.begin(), record.bytes_by_reach.end(), std::uint64_t{0});
  if (result_.crashes == 0 && counted != received) {
    broken(fmt::format("{}: {} bytes received, {} counted", what, received, counted));
  }
}

void Simulation::completed(SpId by, WorldRank rank, SlotIndex slot_index, const CompletionRecord& record) {
  Rank& state = ranks_[rank.value()];
  if (slot_index.value() >= state.slots.size()) return broken("a completion names a slot that was never posted");
  Slot& slot = state.slots[slot_index.value()];
  if (slot.completed) return broken(fmt::format("rank {}: completed twice", rank.value()));
  trace("service {} completes rank {} group {} operation {}: {}", by.value(), rank.value(), slot.group, slot.sequence,
        name_of(record.status));
  check_completion(rank, slot, record);
  slot.completed = true;
  ++result_.operations;
  // The program reuses its buffers at once.
  if (slot.send_buffer != slot.receive_buffer) {
    const std::span<std::byte> send = world_.memory[rank.value()].buffer(slot.send_buffer);
    for (std::byte& byte : send) byte = static_cast<std::byte>(world_.random.next());
  }
  const std::span<std::byte> receive = world_.memory[rank.value()].buffer(slot.receive_buffer);
  slot.image.assign(receive.begin(), receive.end());
  if (++state.done[slot.group] == scenario_.groups[slot.group].operations.size()) {
    world_.time.after(world_.random.within(world_.faults.post_delay_ns),
                      [this, rank, group = slot.group] { free_group(rank, group); });
  }
  const bool open =
      std::any_of(state.slots.begin(), state.slots.end(), [](const Slot& other) { return !other.completed; });
  if (!open) schedule_post(rank);
}

// For a rank that has not posted, if the two exchange anything; or for a credit that an earlier operation holds.
bool Simulation::may_wait(const Slot& slot) const {
  const GroupPlan& group = scenario_.groups[slot.group];
  const OperationPlan& plan = plan_of(slot);
  if (plan.wrong_kinds) return true;
  const auto count_of = [&](const std::map<std::uint32_t, std::uint64_t>& counts) {
    const auto found = counts.find(slot.group);
    return found == counts.end() ? 0 : found->second;
  };
  std::size_t open_before = 0;
  for (std::uint64_t sequence = 0; sequence < slot.sequence; ++sequence) {
    const auto open = [&](WorldRank member) { return count_of(ranks_[member.value()].done) <= sequence; };
    if (std::any_of(group.members->begin(), group.members->end(), open)) ++open_before;
  }
  if (open_before >= scenario_.limits.announce_credits) return true;
  const std::size_t me = slot.me.value();
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const bool late = count_of(ranks_[(*group.members)[peer].value()].posted) <= slot.sequence;
    if (late && (plan.sent[me][peer] != 0 || plan.expected[peer][me] != 0)) return true;
  }
  return false;
}

// Nobody waits for a rank with which it exchanges nothing.
void Simulation::check_waiting() {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const Slot& slot : ranks_[rank].slots) {
      if (slot.completed || may_wait(slot)) continue;
      broken(fmt::format("rank {} group {} operation {} waits for a late rank without need", rank, slot.group,
                         slot.sequence));
    }
  }
}

bool Simulation::recall_absent() {
  check_waiting();
  const auto away = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.absent; });
  if (away == ranks_.end()) return false;
  away->absent = false;
  post_next(WorldRank{static_cast<std::uint32_t>(away - ranks_.begin())});
  return true;
}

void Simulation::check_end() {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& state = ranks_[rank];
    if (state.next_step != scenario_.steps[rank].size()) {
      broken(fmt::format("deadlock: rank {} never got to post step {}", rank, state.next_step));
    }
    for (const Slot& slot : state.slots) {
      if (!slot.completed) {
        broken(fmt::format("deadlock: rank {} group {} operation {} never completes", rank, slot.group, slot.sequence));
      }
      if (!image_holds(WorldRank{rank}, slot)) {
        broken(fmt::format("rank {} group {} operation {}: bytes changed after completion", rank, slot.group,
                           slot.sequence));
      }
    }
  }
  for (Service& service : services_) {
    if (!service.alive) continue;
    service.engine->run();
    if (!service.engine->idle() || service.engine->open_operations() != 0) {
      broken(fmt::format("service process {} is not idle at the end: {} operations open", service.id.value(),
                         service.engine->open_operations()));
    }
    if (service.fabric->moves_in_flight() != 0) broken("moves in flight at the end");
  }
}

SimulationResult Simulation::run() {
  if (options_.trace) fmt::print("seed {}: {}\n", options_.seed, scenario_.describe());
  services_.resize(scenario_.services);
  for (std::uint32_t index = 0; index < scenario_.services; ++index) {
    services_[index].id = SpId{index};
    start_service(services_[index]);
  }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) schedule_post(WorldRank{rank});
  for (std::uint64_t i = 0; i < world_.faults.most_crashes; ++i) {
    if (!world_.random.chance(0.7)) continue;
    const std::uint64_t victim = world_.random.below(services_.size());
    world_.time.after(world_.random.within(world_.faults.crash_time_ns), [this, victim] { crash(services_[victim]); });
  }
  std::uint64_t steps = 0;
  while (!result_.broken && (world_.time.step() || recall_absent())) {
    if (world_.time.now_ns() > kTimeLimit_ns || ++steps > kStepLimit) broken("no end within the time limit");
  }
  if (!result_.broken) check_end();
  result_.virtual_ns = world_.time.now_ns();
  // Engines go before the world that their moves are in.
  for (Service& service : services_) service.engine.reset();
  return result_;
}

}  // namespace

SimulationResult simulate(const SimulationOptions& options) {
  return Simulation(options).run();
}

}  // namespace outrigger::sim
