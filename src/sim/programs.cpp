#include "sim/programs.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "reduce/reduce.hpp"

namespace outrigger::sim {

using fabric::sim::RankMemory;

std::byte Programs::pattern(const Slot& slot, std::size_t source, std::size_t destination, std::uint64_t index) const {
  if (job_.plan_of(slot).gathers()) destination = 0xFFFF;  // the same for all
  const std::uint64_t key = (std::uint64_t{slot.group} << 48U) ^ (slot.sequence << 32U) ^ (source << 16U) ^ destination;
  return static_cast<std::byte>(fabric::sim::Random::mix(key ^ (job_.options.seed << 20U) ^ ((index / 8) << 56U)) >>
                                (index % 8 * 8));
}

namespace {

void name_neighbors(const OperationPlan& plan, GroupRank me, bool sends, engine::BlockLayout& layout) {
  for (std::size_t peer = 0; peer < plan.edges.size(); ++peer) {
    const std::uint8_t edge = sends ? plan.edges[me.value()][peer] : plan.edges[peer][me.value()];
    if (edge != 0) layout.neighbors.emplace_back(static_cast<std::uint32_t>(peer));
  }
  if (is_of_neighbors(plan.collective) && layout.neighbors.empty()) layout.extents.clear();
}

}  // namespace

engine::BlockLayout Programs::make_layout(WorldRank rank, const OperationPlan& plan, GroupRank me, bool sends,
                                          std::uint32_t& buffer) {
  const std::size_t size = plan.sent.size();
  const auto bytes_of = [&](std::size_t peer) {
    return sends ? plan.sent[me.value()][peer] : plan.expected[peer][me.value()];
  };
  RankMemory& memory = job_.world.memory[rank.value()];
  engine::BlockLayout layout;
  layout.base.owner = rank;
  layout.base.region = kPrivateRegion;
  if (plan.reduces()) {
    layout.block_bytes = sends ? plan.vector_bytes() : plan.expected[0][me.value()];
    buffer = memory.add(layout.block_bytes + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  if (sends && plan.gathers()) {
    const std::size_t any = plan.broadcasts() && me.value() == plan.root ? (plan.root + 1) % size : 0;
    layout.block_bytes = bytes_of(any);  // stride 0: one block for all
    buffer = memory.add(layout.block_bytes + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  if (plan.broadcasts() || (sends ? plan.gathers_at_root() : plan.scatters())) {
    layout.block_bytes = bytes_of(plan.root);
    layout.only = GroupRank{plan.root};
    buffer = memory.add(layout.block_bytes + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  if (plan.regular()) {
    layout.block_bytes = bytes_of(0);
    layout.stride_bytes = static_cast<std::int64_t>(layout.block_bytes + job_.world.random.below(3));
    buffer = memory.add(static_cast<std::size_t>(layout.stride_bytes) * size + 1);
    layout.base.address = RankMemory::address_of(buffer, 0);
    return layout;
  }
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  job_.world.random.shuffle(order);
  layout.extents.resize(size);
  std::uint64_t offset = job_.world.random.below(4);
  for (const std::size_t peer : order) {
    layout.extents[peer] = PairExtent{static_cast<std::int64_t>(offset), bytes_of(peer)};
    offset += bytes_of(peer) + job_.world.random.below(4);
  }
  buffer = memory.add(offset + 1);
  // The base may be anywhere, so offsets may be negative.
  const std::uint64_t base = job_.world.random.below(offset + 1);
  for (PairExtent& extent : layout.extents) extent.offset_bytes -= static_cast<std::int64_t>(base);
  layout.base.address = RankMemory::address_of(buffer, base);
  name_neighbors(plan, me, sends, layout);
  return layout;
}

// Numbers whose sums are rounded, and pairs with ties; elements of other types have any bits.
std::vector<std::byte> Programs::contribution(const Slot& slot, std::size_t source) const {
  const OperationPlan& plan = job_.plan_of(slot);
  std::vector<std::byte> bytes(plan.vector_bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(slot, source, 0xFFFF, i);
  const auto change = [&bytes]<class T>(T /*type*/, auto value_of) {
    for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &bytes[at], sizeof(bits));
      const T value = value_of(bits);
      std::memcpy(&bytes[at], &value, sizeof(T));
    }
  };
  switch (plan.reduction->type) {
    case ElementType::float32: change(float{}, [](std::uint32_t bits) { return static_cast<float>(bits) / 7; }); break;
    case ElementType::float64:
      change(double{}, [](std::uint32_t bits) { return static_cast<double>(bits) / 7; });
      break;
    case ElementType::two_int:
      change(std::int32_t{}, [](std::uint32_t bits) { return static_cast<std::int32_t>(bits % 3); });
      break;
    default: break;
  }
  return bytes;
}

const std::vector<std::byte>& Programs::reduced(const Slot& slot) {
  const std::size_t operands = job_.plan_of(slot).operands_of(slot.me.value());
  const auto [entry, fresh] = reduced_.try_emplace({slot.group, slot.sequence, operands});
  std::vector<std::byte>& result = entry->second;
  if (!fresh || operands == 0) return result;
  result = contribution(slot, 0);
  for (std::size_t source = 1; source < operands; ++source) {
    const std::vector<std::byte> next = contribution(slot, source);
    reduce::apply(*job_.plan_of(slot).reduction, result, next, result);
  }
  return result;
}

void Programs::fill(const Slot& slot, WorldRank rank) {
  RankMemory& memory = job_.world.memory[rank.value()];
  const OperationPlan& plan = job_.plan_of(slot);
  if (plan.reduces()) {
    const std::vector<std::byte> own = contribution(slot, slot.me.value());
    std::copy(own.begin(), own.end(), memory.buffer(slot.send_buffer).begin());
    return;
  }
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const Block block = slot.send.block(GroupRank{static_cast<std::uint32_t>(peer)});
    const std::span<std::byte> bytes = memory.resolve(block.memory.address, block.bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(slot, slot.me.value(), peer, i);
  }
}

std::size_t Programs::make_slot(WorldRank rank, const Step& step) {
  const GroupPlan& group = job_.scenario.groups[step.group];
  const OperationPlan& plan = group.operations[step.sequence];
  Slot slot;
  slot.group = step.group;
  slot.sequence = step.sequence;
  const auto self = std::find(group.members->begin(), group.members->end(), rank) - group.members->begin();
  slot.me = GroupRank{static_cast<std::uint32_t>(self)};
  slot.receive = make_layout(rank, plan, slot.me, false, slot.receive_buffer);
  const std::span<std::byte> receive = job_.world.memory[rank.value()].buffer(slot.receive_buffer);
  for (std::byte& byte : receive) byte = static_cast<std::byte>(job_.world.random.next());
  if (plan.in_place[slot.me.value()] != 0) {
    slot.send_buffer = slot.receive_buffer;
    slot.send.base = slot.receive.block(slot.me).memory;
    slot.send.block_bytes = slot.receive.block(slot.me).bytes;
  } else {
    slot.send = make_layout(rank, plan, slot.me, true, slot.send_buffer);
  }
  slot.marks.assign(group.members->size(), 0);
  fill(slot, rank);
  slot.image.assign(receive.begin(), receive.end());
  if (plan.reduces() && plan.expected[0][slot.me.value()] != 0) {
    const std::vector<std::byte>& result = reduced(slot);
    const auto part = result.begin() + static_cast<std::ptrdiff_t>(plan.part_offset(slot.me.value()));
    std::copy_n(part, plan.expected[0][slot.me.value()], slot.image.begin());
  }
  for (std::size_t peer = 0; !plan.reduces() && peer < plan.sent.size(); ++peer) {
    const Block block = slot.receive.block(GroupRank{static_cast<std::uint32_t>(peer)});
    const std::uint64_t bytes = std::min(plan.sent[peer][slot.me.value()], block.bytes);
    const std::uint64_t offset = block.memory.address - RankMemory::address_of(slot.receive_buffer, 0);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      slot.image[offset + i] = pattern(slot, peer, slot.me.value(), i);
      if (peer == slot.me.value() && plan.own_block_done[peer] != 0) receive[offset + i] = slot.image[offset + i];
    }
  }
  job_.ranks[rank.value()].slots.push_back(std::move(slot));
  return job_.ranks[rank.value()].slots.size() - 1;
}

engine::PostedOperation Programs::posted(WorldRank rank, std::size_t index) const {
  const Slot& slot = job_.ranks[rank.value()].slots[index];
  const GroupPlan& group = job_.scenario.groups[slot.group];
  const OperationPlan& plan = job_.plan_of(slot);
  engine::PostedOperation operation;
  operation.rank = rank;
  operation.slot = SlotIndex{static_cast<std::uint32_t>(index)};
  operation.id = OperationId{group.id, slot.sequence};
  operation.members = group.members;
  operation.me = slot.me;
  operation.collective = plan.collective;
  operation.algorithm = job_.options.algorithm;
  operation.root = plan.root;
  operation.digest = operation_digest(plan.collective, job_.options.algorithm, plan.root,
                                      static_cast<std::uint32_t>(group.members->size()), plan.differs[slot.me.value()]);
  operation.send = slot.send;
  operation.receive = slot.receive;
  operation.reduction = plan.reduction;
  if (plan.collective == Collective::ireduce_scatter) operation.part_offset_bytes = plan.part_offset(slot.me.value());
  operation.own_block_done = plan.own_block_done[slot.me.value()] != 0;
  return operation;
}

void Programs::schedule_post(WorldRank rank) {
  if (job_.world.random.chance(job_.world.faults.absent_chance)) {
    job_.ranks[rank.value()].absent = true;
    return;
  }
  std::uint64_t delay = job_.world.random.within(job_.world.faults.post_delay_ns);
  if (job_.world.random.chance(job_.world.faults.late_post_chance))
    delay += job_.world.random.within(job_.world.faults.late_post_ns);
  job_.world.time.after(delay, [this, rank] { post_next(rank); });
}

void Programs::post_next(WorldRank rank) {
  Rank& state = job_.ranks[rank.value()];
  const std::vector<Step>& steps = job_.scenario.steps[rank.value()];
  if (state.absent || state.lost || state.next_step == steps.size()) return;
  const Step& step = steps[state.next_step];
  const bool new_round = state.next_step != 0 && steps[state.next_step - 1].round != step.round;
  if (new_round && state.anything_open()) return;  // completed() calls this function again
  ++state.next_step;
  const std::size_t slot = make_slot(rank, step);
  ++state.posted[step.group];
  job_.trace("rank {} posts group {} operation {} ({})", rank.value(), step.group, step.sequence,
             name_of(job_.scenario.groups[step.group].operations[step.sequence].collective));
  if (state.attached) {
    tell_(job_.service_of(rank), [operation = posted(rank, slot)](engine::Engine& engine) { engine.post(operation); });
  }
  schedule_post(rank);
}

void Programs::free_group(WorldRank rank, std::uint32_t group) {
  if (job_.ranks[rank.value()].lost) return;
  job_.ranks[rank.value()].freed[group] = true;
  if (!job_.ranks[rank.value()].attached) return;
  tell_(job_.service_of(rank),
        [rank, id = job_.scenario.groups[group].id](engine::Engine& engine) { engine.forget_group(rank, id); });
}

void Programs::completed(WorldRank rank, Slot& slot) {
  Rank& state = job_.ranks[rank.value()];
  // Programs reuse their buffers at once.
  if (slot.send_buffer != slot.receive_buffer) {
    const std::span<std::byte> send = job_.world.memory[rank.value()].buffer(slot.send_buffer);
    for (std::byte& byte : send) byte = static_cast<std::byte>(job_.world.random.next());
  }
  const std::span<std::byte> receive = job_.world.memory[rank.value()].buffer(slot.receive_buffer);
  slot.image.assign(receive.begin(), receive.end());
  if (++state.done[slot.group] == job_.scenario.groups[slot.group].operations.size()) {
    job_.world.time.after(job_.world.random.within(job_.world.faults.post_delay_ns),
                          [this, rank, group = slot.group] { free_group(rank, group); });
  }
  if (!state.anything_open()) schedule_post(rank);
}

void Programs::schedule_losses() {
  for (std::uint64_t i = 0; i < job_.world.faults.most_losses; ++i) {
    if (!job_.world.random.chance(0.5)) continue;
    const WorldRank victim{static_cast<std::uint32_t>(job_.world.random.below(job_.ranks.size()))};
    job_.world.time.after(job_.world.random.within(job_.world.faults.loss_time_ns), [this, victim] { lose(victim); });
  }
}

// Its service process is told by its keeper.
void Programs::lose(WorldRank rank) {
  Rank& state = job_.ranks[rank.value()];
  if (state.lost) return;
  job_.trace("rank {} is lost", rank.value());
  ++job_.result.losses;
  state.lost = true;
  state.absent = false;
  state.forgotten = !state.attached;
  job_.world.memory[rank.value()].lose();
  job_.world.time.after(job_.world.random.within(job_.world.faults.notice_delay_ns), [this, rank] {
    tell_(job_.service_of(rank), [rank](engine::Engine& engine) { engine.drop_rank(rank); });
  });
}

bool Programs::recall_absent() {
  const auto away = std::find_if(job_.ranks.begin(), job_.ranks.end(), [](const Rank& rank) { return rank.absent; });
  if (away == job_.ranks.end()) return false;
  away->absent = false;
  post_next(WorldRank{static_cast<std::uint32_t>(away - job_.ranks.begin())});
  return true;
}

}  // namespace outrigger::sim
