#include "fabric/sim/sim_fabric.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "reduce/reduce.hpp"

namespace outrigger::fabric::sim {
namespace {

constexpr unsigned kOffsetBits = 32;

// Overwrites a block's bytes from an offset on with the eager ones.
void put_what_came_ahead(std::span<std::byte> bytes, std::span<const std::byte> ahead, std::uint64_t offset_bytes) {
  if (ahead.size() <= offset_bytes) return;
  const std::span<const std::byte> rest = ahead.subspan(offset_bytes);
  std::memcpy(bytes.data(), rest.data(), std::min(rest.size(), bytes.size()));
}

}  // namespace

std::uint32_t RankMemory::add(std::size_t bytes) {
  buffers_.emplace_back(bytes);
  return static_cast<std::uint32_t>(buffers_.size() - 1);
}

std::uint64_t RankMemory::address_of(std::uint32_t index, std::uint64_t offset) {
  return ((std::uint64_t{index} + 1) << kOffsetBits) + offset;
}

std::uint32_t RankMemory::buffer_of(std::uint64_t address) {
  return static_cast<std::uint32_t>((address >> kOffsetBits) - 1);
}

std::span<std::byte> RankMemory::resolve(std::uint64_t address, std::uint64_t bytes) {
  if (lost_) return {};
  const std::uint64_t slot = address >> kOffsetBits;
  const std::uint64_t offset = address & ((std::uint64_t{1} << kOffsetBits) - 1);
  if (slot == 0 || slot > buffers_.size()) return {};
  std::vector<std::byte>& buffer = buffers_[slot - 1];
  if (offset > buffer.size() || bytes > buffer.size() - offset) return {};
  return std::span(buffer).subspan(offset, bytes);
}

void World::send(SpId from, SpId to, std::span<const std::byte> message) {
  observer.sent(from, to, message);
  Pair& pair = pairs_[{from, to}];
  const std::uint64_t arrival = time.now_ns() + random.within(faults.message_delay_ns);
  pair.last_arrival_ns = std::max(pair.last_arrival_ns, arrival);
  if (away_.contains(to)) return;
  const std::uint64_t id = next_letter_++;
  pair.letters.push_back(Letter{id, std::vector<std::byte>(message.begin(), message.end())});
  time.at(pair.last_arrival_ns, [this, from, to, id] { arrive(from, to, id); });
}

void World::arrive(SpId from, SpId to, std::uint64_t id) {
  Pair& pair = pairs_[{from, to}];
  if (pair.letters.empty() || pair.letters.front().id != id) return;  // lost
  std::vector<std::byte> message = std::move(pair.letters.front().message);
  pair.letters.pop_front();
  observer.arrived(from, to, std::move(message));
}

void World::lose_messages_of(SpId crashed) {
  away_.insert(crashed);
  for (auto& [ends, pair] : pairs_) {
    if (ends.second == crashed) pair.letters.clear();
    if (ends.first == crashed && !pair.letters.empty()) pair.letters.resize(random.below(pair.letters.size() + 1));
  }
  std::erase_if(ahead, [crashed](const auto& block) { return block.first.first == crashed; });
}

std::size_t World::messages_in_flight() const {
  std::size_t count = 0;
  for (const auto& [ends, pair] : pairs_) count += pair.letters.size();
  return count;
}

void SimFabric::move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) {
  assert(from.bytes != 0 && from.bytes == to.bytes);
  const std::uint64_t id = next_move_++;
  const auto [started, added] = moves_.try_emplace(&completion, MoveState{id, from, to, 0, {}, {}, {}, {}});
  assert(added);
  static_cast<void>(added);
  if (name != nullptr) started->second.ahead = take_ahead(*name);
  schedule_chunk(completion, id);
}

void SimFabric::reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
                       const Block& into, MoveCompletion& completion) {
  assert(operands.size() >= 2 && into.bytes % reduction.element_bytes() == 0);
  assert(names.empty() || names.size() == operands.size());
  move(operands.front(), into, names.empty() ? nullptr : &names.front(), completion);
  MoveState& state = moves_.at(&completion);
  state.reduction = reduction;
  state.others.assign(operands.begin() + 1, operands.end());
  for (std::size_t i = 1; i < names.size(); ++i) state.others_ahead.push_back(take_ahead(names[i]));
  if (into.memory == operands.front().memory) return;
  // Poison: no rank may read an unfinished result.
  std::ranges::fill(world_.memory[into.memory.owner.value()].resolve(into.memory.address, into.bytes), std::byte{0x5A});
}

std::vector<std::byte> SimFabric::take_ahead(const BlockId& name) {
  auto block = world_.ahead.extract({self_, name});
  return block.empty() ? std::vector<std::byte>() : std::move(block.mapped());
}

void SimFabric::send_eager(const BlockId& name, const Block& from, SpId reader) {
  const bool added = eager_.insert(name).second;
  assert(added);
  static_cast<void>(added);
  if (!world_.random.chance(world_.faults.eager_chance)) return;
  Block part = from;
  part.bytes = 1 + world_.random.below(from.bytes);
  const std::uint64_t delay = world_.random.within(world_.faults.chunk_delay_ns);
  world_.time.after(delay, [this, alive = std::weak_ptr<bool>(alive_), name, part, reader] {
    const std::shared_ptr<bool> here = alive.lock();
    if (here == nullptr || !*here || !eager_.contains(name)) return;
    if (world_.memory[part.memory.owner.value()].is_lost()) return;
    const auto bytes = world_.memory[part.memory.owner.value()].resolve(part.memory.address, part.bytes);
    world_.observer.eager_read(self_, part);
    world_.ahead[{reader, name}].assign(bytes.begin(), bytes.end());
  });
}

void SimFabric::withdraw_eager(const BlockId& name) {
  const std::size_t removed = eager_.erase(name);
  assert(removed == 1);
  static_cast<void>(removed);
}

void SimFabric::forget_eager(const BlockId& name, SpId /*source*/) {
  world_.ahead.erase({self_, name});
}

void SimFabric::schedule_chunk(MoveCompletion& completion, std::uint64_t id) {
  const std::uint64_t delay = world_.random.within(world_.faults.chunk_delay_ns);
  world_.time.after(delay, [this, alive = std::weak_ptr<bool>(alive_), &completion, id] {
    const std::shared_ptr<bool> here = alive.lock();
    if (here != nullptr && *here) chunk(completion, id);
  });
}

std::span<std::byte> SimFabric::rest_of(const MoveState& move, const Block& block, std::uint64_t bytes) {
  if (block.memory.owner.value() >= world_.memory.size()) return {};
  return world_.memory[block.memory.owner.value()].resolve(block.memory.address + move.done_bytes, bytes);
}

bool SimFabric::has_lost_end(const MoveState& move) const {
  const auto is_lost = [this](const Block& block) { return world_.memory[block.memory.owner.value()].is_lost(); };
  return is_lost(move.from) || is_lost(move.to) || std::ranges::any_of(move.others, is_lost);
}

bool SimFabric::do_some(MoveState& move, std::uint64_t bytes) {
  return move.reduction ? reduce_some(move, bytes) : copy(move, bytes);
}

bool SimFabric::reduce_some(MoveState& move, std::uint64_t bytes) {
  const std::uint64_t width = move.reduction->element_bytes();
  bytes = (bytes + width - 1) / width * width;
  const std::span<std::byte> target = rest_of(move, move.to, bytes);
  const std::span<std::byte> first = rest_of(move, move.from, bytes);
  if (first.size() != bytes || target.size() != bytes) return false;
  world_.observer.chunk_moves(self_, move.from, move.to);
  std::vector<std::byte> so_far(first.begin(), first.end());
  put_what_came_ahead(so_far, move.ahead, move.done_bytes);
  for (std::size_t i = 0; i < move.others.size(); ++i) {
    const std::span<std::byte> other = rest_of(move, move.others[i], bytes);
    if (other.size() != bytes) return false;
    world_.observer.chunk_moves(self_, move.others[i], move.to);
    std::vector<std::byte> next(other.begin(), other.end());
    if (!move.others_ahead.empty()) put_what_came_ahead(next, move.others_ahead[i], move.done_bytes);
    reduce::apply(*move.reduction, so_far, next, so_far);
  }
  std::ranges::copy(so_far, target.begin());
  move.done_bytes += bytes;
  return true;
}

bool SimFabric::copy(MoveState& move, std::uint64_t bytes) {
  const std::span<std::byte> source = rest_of(move, move.from, bytes);
  const std::span<std::byte> target = rest_of(move, move.to, bytes);
  if (source.size() != bytes || target.size() != bytes) return false;
  world_.observer.chunk_moves(self_, move.from, move.to);
  std::memmove(target.data(), source.data(), bytes);
  put_what_came_ahead(target, move.ahead, move.done_bytes);
  move.done_bytes += bytes;
  return true;
}

void SimFabric::chunk(MoveCompletion& completion, std::uint64_t id) {
  const auto found = moves_.find(&completion);
  if (found == moves_.end() || found->second.id != id) return;  // cancelled
  MoveState& move = found->second;
  const std::uint64_t rest = move.from.bytes - move.done_bytes;
  MoveOutcome outcome;
  if (!do_some(move, std::min(rest, std::max<std::uint64_t>(1, world_.random.within(world_.faults.chunk_bytes))))) {
    outcome.status = has_lost_end(move) ? MoveStatus::owner_lost : MoveStatus::memory_fault;
  } else if (move.done_bytes < move.from.bytes) {
    return schedule_chunk(completion, id);
  }
  outcome.reach = static_cast<Reach>(world_.random.below(kReachCount));
  moves_.erase(found);
  completion.moved(outcome);
  world_.observer.move_ended(self_);
}

void SimFabric::cancel(MoveCompletion& completion) {
  moves_.erase(&completion);
}

void SimFabric::crash() {
  *alive_ = false;
  std::vector<MoveState> moves;
  for (auto& [completion, move] : moves_) moves.push_back(move);
  std::sort(moves.begin(), moves.end(), [](const MoveState& a, const MoveState& b) { return a.id < b.id; });
  for (MoveState& move : moves) {
    const std::uint64_t more = world_.random.below(move.from.bytes - move.done_bytes + 1);
    if (more != 0) static_cast<void>(do_some(move, more));
  }
  moves_.clear();
}

void SimFabric::send(SpId to, std::span<const std::byte> message) {
  assert(to != self_);
  world_.send(self_, to, message);
}

void SimFabric::mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) {
  world_.observer.marked(self_, destination, slot, source, mark);
}

void SimFabric::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  world_.observer.completed(self_, rank, slot, record);
}

}  // namespace outrigger::fabric::sim
