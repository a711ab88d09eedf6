#include "fabric/dpu/remote_ranks.hpp"

#include <cstdlib>
#include <utility>

namespace outrigger::fabric::dpu {

Status RemoteRanks::open(ucx::Context context, ucx::WorkerEvents& events) {
  context_.emplace(std::move(context));
  Result<ucx::Worker> worker = ucx::Worker::open(*context_, events, kRankMessageId);
  if (!worker) return Error{worker.error()};
  worker_.emplace(std::move(worker).value());
  return Done{};
}

void RemoteRanks::close() {
  rma_.forget_ended();
  worker_.reset();
  context_.reset();
  rma_.forget_all();
}

RemoteRank* RemoteRanks::find(WorldRank rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : found->second.get();
}

RemoteRank& RemoteRanks::add(std::unique_ptr<RemoteRank> rank) {
  const WorldRank number = rank->rank;
  return *ranks_.insert_or_assign(number, std::move(rank)).first->second;
}

// Errors in the range are found when it is read or written.
NodeMemory::View RemoteRanks::view(const MemoryRef& memory, std::uint64_t /*bytes*/) {
  return View{find(memory.owner) != nullptr ? MoveStatus::ok : MoveStatus::owner_lost, nullptr, nullptr};
}

MoveStatus RemoteRanks::read(const MemoryRef& /*from*/, std::span<std::byte> /*to*/) {
  std::abort();  // is_remote(): a bug
}

MoveStatus RemoteRanks::write(const MemoryRef& /*to*/, std::span<const std::byte> /*from*/) {
  std::abort();
}

void RemoteRanks::start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) {
  RemoteRank* owner = find(from.owner);
  if (owner == nullptr) return rma_.later([done = std::move(done)] { done(MoveStatus::owner_lost); });
  owner->remote->get(from, to, std::move(done));
}

void RemoteRanks::start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done) {
  RemoteRank* owner = find(to.owner);
  if (owner == nullptr) return rma_.later([done = std::move(done)] { done(MoveStatus::owner_lost); });
  owner->remote->put(to, from, std::move(done));
}

bool RemoteRanks::progress_memory() {
  const bool worked = worker_->progress();
  return rma_.deliver() || worked;
}

}  // namespace outrigger::fabric::dpu
