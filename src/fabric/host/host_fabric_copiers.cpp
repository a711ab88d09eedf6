// What copiers do for this service process: who could help with a move, what is given, taken in and taken back.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "fabric/host/cross_memory.hpp"
#include "fabric/host/host_fabric.hpp"

namespace outrigger::fabric {
namespace {

constexpr std::chrono::microseconds kLongestLoan{1000};  // of the core, before this process looks at the rest
constexpr std::chrono::microseconds kStuckPause{50};     // while nothing but a stuck copier is left

MoveStatus status_of(CopyResult result) {
  switch (result) {
    case CopyResult::copied: return MoveStatus::ok;
    case CopyResult::gone: return MoveStatus::owner_lost;
    default: return MoveStatus::memory_fault;
  }
}

}  // namespace

void HostFabric::expect_copier(WorldRank rank, CopyTakers takers) {
  Rank* found = find(rank);
  if (found == nullptr) return;
  takers_ = takers;
  const RankMemory& memory = found->memory;
  const auto patience = takers == CopyTakers::copier ? options_.copier_patience : options_.rank_patience;
  found->copier = std::make_unique<RankCopier>(memory.segment().header().copies, memory.pid(), patience, takers);
  with_copiers_.push_back(rank);
}

void HostFabric::set_probe(WorldRank rank, std::uint64_t address) {
  if (Rank* found = find(rank)) found->probe_address = address;
}

HostFabric::Helper HostFabric::helper_of(const HostMove& move) {
  const MemoryRef& from = move.from.memory;
  const MemoryRef& to = move.to.memory;
  const bool within = from.owner == to.owner;
  // One side mapped: one copy is enough without help, but for a rank's own block a plain one is cheaper.
  const bool both_private = from.region == kPrivateRegion && to.region == kPrivateRegion;
  if (!both_private && !(within && (from.region == kPrivateRegion || to.region == kPrivateRegion))) return {};
  if (in_reach(from) && in_reach(to)) return {};
  for (const WorldRank rank : {to.owner, from.owner}) {
    Rank* found = find(rank);
    if (found == nullptr || !found->copier) continue;
    const WorldRank other = rank == to.owner ? from.owner : to.owner;
    if (!found->copier->may_reach(other)) continue;
    if (found->copier->usable()) return Helper{rank, found->copier.get()};
    if (move.from.bytes >= options_.copier_wanted_bytes) found->copier->want();
  }
  return {};
}

void HostFabric::queue(const Piece& piece) {
  const Helper helper = helper_of(*piece.move);
  if (helper.copier == nullptr) {
    queue_.push_back(piece);
    return;
  }
  helper.copier->queue.push_back(piece);
  helper.copier->queued_bytes += piece.bytes;
  list(helper.rank, *helper.copier);
}

void HostFabric::list(WorldRank rank, RankCopier& copier) {
  if (!std::exchange(copier.listed, true)) helping_.push_back(rank);
}

// ---------------------------------------------------------------- giving

bool HostFabric::lend_out() {
  if (takers_ == CopyTakers::waiting_ranks) return leave_to_waiting_ranks();
  const bool helped = ranks_help();
  std::uint64_t budget = options_.copiers_bytes;
  if (helped) {
    budget = options_.helped_bytes - std::min(options_.helped_bytes, lent_bytes());
  } else {
    for (const WorldRank rank : helping_) find(rank)->copier->ask_no_more();
  }
  bool any = false;
  for (std::size_t left = helping_.size(); left > 0 && budget > 0; --left) {
    const WorldRank rank = helping_.front();
    helping_.pop_front();
    helping_.push_back(rank);  // those that get nothing now come first the next time
    RankCopier& copier = *find(rank)->copier;
    const std::uint64_t most = may_lend_to(copier, helped);
    const std::uint64_t lent = most == 0 ? 0 : lend_out_to(rank, copier, most);
    if (lent == 0) continue;
    if (helped) ask(rank, copier);
    copier.ring();
    budget -= std::min(budget, lent);
    any = true;
  }
  return any;
}

// It costs nobody a core, so they get all that they have room for.
bool HostFabric::leave_to_waiting_ranks() {
  bool any = false;
  for (const WorldRank rank : helping_) {
    RankCopier& copier = copier_of(rank);
    if (copier.queue.empty() || copier.room() == 0) continue;
    if (!copier.usable() || (copier.pending() == 0 && copier.queued_bytes < options_.copier_wanted_bytes)) {
      if (copier.pending() == 0) stop_helping(copier);
      continue;
    }
    if (lend_out_to(rank, copier, copier.queued_bytes) == 0) continue;
    copier.ask_rank();
    wake_if_asleep(find(rank)->memory.segment().header());
    any = true;
  }
  return any;
}

bool HostFabric::anything_to_do() const {
  if (takers_ != CopyTakers::waiting_ranks) return moves_in_flight() != 0;
  if (!queue_.empty() || !ended_.empty()) return true;
  return std::ranges::any_of(helping_, [this](WorldRank rank) {
    const RankCopier& copier = copier_of(rank);
    const auto patience = copier.patience_left();
    return copier.pending() == 0 || copier.has_news() || (patience && patience->count() == 0);
  });
}

std::optional<RankCopier::Clock::duration> HostFabric::patience_left() const {
  std::optional<RankCopier::Clock::duration> least;
  if (takers_ != CopyTakers::waiting_ranks) return least;
  for (const WorldRank rank : helping_) {
    const auto left = copier_of(rank).patience_left();
    if (left && (!least || *left < *least)) least = left;
  }
  return least;
}

// Copiers are lent the core for what they were given and no more; ranks that help get on by themselves and should not
// wait for the last of them.
std::uint64_t HostFabric::may_lend_to(RankCopier& copier, bool helped) {
  if (copier.queue.empty()) return 0;
  const bool usable = copier.usable() && copier.queued_bytes >= options_.copier_least_bytes;
  if (copier.pending() == 0) {
    if (usable) return options_.copier_most_bytes;
    stop_helping(copier);
    return 0;
  }
  const std::uint64_t lent = copier.unfinished_bytes();
  if (!helped || !usable || lent + options_.chunk_bytes > options_.copier_most_bytes) return 0;
  return options_.copier_most_bytes - lent;
}

std::uint64_t HostFabric::lent_bytes() {
  std::uint64_t bytes = 0;
  for (const WorldRank rank : helping_) bytes += find(rank)->copier->unfinished_bytes();
  return bytes;
}

bool HostFabric::ranks_help() {
  return std::ranges::all_of(with_copiers_, [this](WorldRank rank) { return find(rank)->copier->rank_waits(); });
}

// The copier has been rung as well. One piece it takes while a rank wakes up.
void HostFabric::ask(WorldRank rank, RankCopier& copier) {
  copier.ask_rank();
  if (copier.unfinished_bytes() > options_.chunk_bytes) wake_if_asleep(find(rank)->memory.segment().header());
}

std::uint64_t HostFabric::lend_out_to(WorldRank rank, RankCopier& copier, std::uint64_t most) {
  std::uint64_t lent = 0;
  const std::uint64_t piece_bytes = takers_ == CopyTakers::copier ? options_.chunk_bytes : options_.rank_piece_bytes;
  if (copier.queued_bytes <= most + options_.copier_least_bytes) most = copier.queued_bytes;  // no small rest
  while (!copier.queue.empty() && copier.room() != 0 && lent < most) {
    Piece piece = copier.queue.front();
    copier.queue.pop_front();
    Piece rest = piece;
    piece.bytes = std::min({piece.bytes, piece_bytes, most - lent});
    rest.offset += piece.bytes;
    rest.bytes -= piece.bytes;
    if (rest.bytes != 0) copier.queue.push_front(rest);
    copier.queued_bytes -= piece.bytes;
    const std::optional<CopyJob> job = job_of(rank, copier, piece);
    if (!job) continue;
    ++piece.move->lent;
    lent += piece.bytes;
    copier.give(*job, piece);
  }
  return lent;
}

std::optional<CopyJob> HostFabric::job_of(WorldRank helper, RankCopier& copier, const Piece& piece) {
  const MemoryRef& from = piece.move->from.memory;
  const MemoryRef& to = piece.move->to.memory;
  const std::uint64_t bytes = piece.move->from.bytes;
  const WorldRank other = helper == to.owner ? from.owner : to.owner;
  const RankMemory* source = rank(from.owner);
  const RankMemory* destination = rank(to.owner);
  if (source == nullptr || destination == nullptr) {
    settle(piece, MoveStatus::owner_lost, Reach::copier);
    return std::nullopt;
  }
  if (!source->accessible(from.region, from.address, bytes) || !destination->accessible(to.region, to.address, bytes)) {
    settle(piece, MoveStatus::memory_fault, Reach::copier);
    return std::nullopt;
  }
  CopyJob job;
  job.bytes = piece.bytes;
  const bool pull = helper == to.owner;
  job.own_address = (pull ? to.address : from.address) + piece.offset;
  job.other_address = (pull ? from.address : to.address) + piece.offset;
  job.kind = static_cast<std::uint32_t>(pull ? CopyKind::pull : CopyKind::push);
  if (other == helper) {
    job.kind = static_cast<std::uint32_t>(CopyKind::within);
  } else if (!probe_of(other, job)) {
    copier.note_unreachable(other);
    queue(piece);
    return std::nullopt;
  }
  return job;
}

bool HostFabric::probe_of(WorldRank rank, CopyJob& job) {
  Rank& other = *find(rank);
  if (other.probe_address == 0) return false;
  if (!other.probe_value) {
    // All service processes of the node have changed it by now, and nobody will again.
    std::uint64_t value = 0;
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&value, 1));
    if (read_from_process(other.memory.pid(), other.probe_address, bytes) != MoveStatus::ok) return false;
    other.probe_value = value;
  }
  job.other_pid = other.memory.pid();
  job.probe_address = other.probe_address;
  job.probe_value = *other.probe_value;
  return true;
}

// ---------------------------------------------------------------- taking in

bool HostFabric::take_in() {
  bool any = false;
  for (std::size_t left = helping_.size(); left > 0; --left) {
    const WorldRank rank = helping_.front();
    helping_.pop_front();
    helping_.push_back(rank);
    RankCopier& copier = *find(rank)->copier;
    finished_.clear();
    returned_.clear();
    if (!copier.collect(finished_, returned_)) continue;
    any = true;
    take_in_from(rank, copier);
  }
  std::erase_if(helping_, [this](WorldRank rank) {
    RankCopier& copier = *find(rank)->copier;
    copier.listed = copier.pending() != 0 || !copier.queue.empty();
    return !copier.listed;
  });
  if (!deferred_.empty()) complete_deferred();
  return any;
}

void HostFabric::take_in_from(WorldRank rank, RankCopier& copier) {
  for (const RankCopier::Finished& finished : finished_) {
    const Piece& piece = finished.piece;
    if (piece.move == nullptr) {
      --orphans_;
      continue;
    }
    --piece.move->lent;
    if (finished.result == CopyResult::unreachable) {
      const Block& from = piece.move->from;
      const Block& to = piece.move->to;
      copier.note_unreachable(rank == to.memory.owner ? from.memory.owner : to.memory.owner);
      take_again(piece);
    } else {
      settle(piece, status_of(finished.result), Reach::copier);
    }
  }
  for (const Piece& piece : returned_) give_up(piece);
  if (!returned_.empty()) stop_helping(copier);
}

// The copier has not done it.
void HostFabric::give_up(const Piece& piece) {
  if (piece.move == nullptr) {
    --orphans_;
    return;
  }
  --piece.move->lent;
  take_again(piece);
}

void HostFabric::take_again(const Piece& piece) {
  if (piece.move->status == MoveStatus::ok) {
    queue_.push_back(piece);
  } else {
    end_if_over(*piece.move);  // it has failed meanwhile
  }
}

// What was meant for the copier is copied here.
void HostFabric::stop_helping(RankCopier& copier) {
  queue_.insert(queue_.end(), copier.queue.begin(), copier.queue.end());
  copier.queue.clear();
  copier.queued_bytes = 0;
}

void HostFabric::lend_core() {
  if (takers_ == CopyTakers::waiting_ranks) return;
  core_is_shared_ ? wait_for_copiers() : yield_to_copiers();
}

// A yield costs least, but the kernel need not go by it: not between processes of different groups of its scheduler
// (sessions, control groups), nor where this process has got less of the core than the copier. Then only a sleep gives
// the core away at once.
void HostFabric::yield_to_copiers() {
  const auto deadline = RankCopier::Clock::now() + kLongestLoan;
  for (const WorldRank rank : helping_) {
    const RankCopier& copier = *find(rank)->copier;
    while (copier.pending() != 0 && !copier.stuck() && !copier.all_finished()) {
      if (copier.in_ranks_hands()) break;  // on cores of theirs: others may have finished meanwhile
      const std::uint32_t steps = copier.steps();
      ::sched_yield();
      if (copier.steps() == steps) return wait_for_copiers();
      if (RankCopier::Clock::now() > deadline) return;
    }
  }
}

// They run on this core: nothing is gained by looking on.
void HostFabric::wait_for_copiers() {
  const auto deadline = RankCopier::Clock::now() + kLongestLoan;
  bool others = !queue_.empty();
  // The last one woken is the last one to run, as a rule: then all of them are waited for by one sleep.
  for (auto rank = helping_.rbegin(); rank != helping_.rend(); ++rank) {
    RankCopier& copier = *find(*rank)->copier;
    if (copier.pending() == 0 || copier.stuck()) continue;
    others = true;
    const auto left = std::chrono::ceil<std::chrono::microseconds>(deadline - RankCopier::Clock::now());
    if (left.count() > 0) copier.wait(left);
  }
  if (others) return;
  RankCopier& copier = *find(helping_.front())->copier;
  if (copier.pending() != 0) copier.wait(kStuckPause);
}

// ---------------------------------------------------------------- cancelling

void HostFabric::forget_queued(const HostMove& move) {
  const auto ours = [&move](const Piece& piece) { return piece.move == &move; };
  std::erase_if(queue_, ours);
  for (const WorldRank rank : helping_) {
    RankCopier& copier = *find(rank)->copier;
    for (const Piece& piece : copier.queue) copier.queued_bytes -= ours(piece) ? piece.bytes : 0;
    std::erase_if(copier.queue, ours);
  }
}

void HostFabric::forget_pieces(HostMove& move) {
  forget_queued(move);
  if (move.lent == 0) return;
  for (const WorldRank rank : helping_) {
    RankCopier& copier = *find(rank)->copier;
    bool concerned = false;
    for (std::uint32_t i = 0; i < copier.pending(); ++i) concerned |= copier.piece(i).move == &move;
    if (!concerned) continue;
    std::vector<Piece> returned;
    copier.take_back(returned);
    for (const Piece& piece : returned) {
      if (piece.move == &move) {
        --move.lent;
      } else {
        give_up(piece);
      }
    }
    for (std::uint32_t i = 0; i < copier.pending(); ++i) {
      Piece& piece = copier.piece(i);
      if (piece.move != &move) continue;
      piece.move = nullptr;  // it writes to the end, and nobody is told that the memory is free before that
      ++orphans_;
    }
  }
}

bool HostFabric::has_orphans(WorldRank destination) {
  for (const WorldRank rank : helping_) {
    RankCopier& copier = *find(rank)->copier;
    for (std::uint32_t i = 0; i < copier.pending(); ++i) {
      const Piece& piece = copier.piece(i);
      if (piece.move == nullptr && piece.destination == destination) return true;
    }
  }
  return false;
}

void HostFabric::complete_deferred() {
  for (const Deferred& deferred : std::exchange(deferred_, {})) {
    complete(deferred.rank, deferred.slot, deferred.record);  // or defers it again
  }
}

}  // namespace outrigger::fabric
