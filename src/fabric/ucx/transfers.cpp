#include "fabric/ucx/transfers.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

// Time limit for receives of cancelled moves. The source is ready to send them.
constexpr std::chrono::seconds kLandingTime{2};
// Chunks in flight if processors carry them: in a queue, on the link, and one to be acknowledged.
constexpr std::uint64_t kLeastChunks = 3;

}  // namespace

std::uint64_t Transfer::bytes_at(std::uint64_t offset) const {
  return std::min(chunk_bytes, from.bytes - offset);
}

std::uint64_t Transfer::charge_at(std::uint64_t offset) const {
  return std::max(bytes_at(offset), kLeastCharge);
}

MemoryRef Transfer::local_at(std::uint64_t offset) const {
  return (pulls ? to : from).memory.at(offset);
}

MemoryRef Transfer::remote_at(std::uint64_t offset) const {
  return (pulls ? from : to).memory.at(offset);
}

Transfer::Chunk* Transfer::open_chunk(std::uint64_t offset) {
  const auto found = std::ranges::find(open_chunks, offset, &Chunk::offset);
  return found == open_chunks.end() ? nullptr : &*found;
}

Transfer* Transfers::make(std::uint64_t id, Way way, Peer& peer, const Block& from, const Block& to,
                          MoveCompletion& completion) {
  if (from.bytes == 0 || from.bytes != to.bytes) std::abort();  // broken contract: a bug
  channels_.set_busy();
  if (peer.departed) {
    finished_.add(completion, MoveOutcome{MoveStatus::owner_lost, Reach::wire});
    return nullptr;
  }
  Transfer& transfer = transfers_[id];
  transfer.pulls = way == Way::pull;
  transfer.from = from;
  transfer.to = to;
  transfer.peer = &peer;
  transfer.completion = &completion;
  (void)channels_.learn_route(peer);  // finds out the network's abilities
  transfer.chunk_bytes = peer.moves_memory ? options_.chunk_bytes : options_.copied_chunk_bytes;
  const std::uint64_t most_bytes = options_.peer_window_bytes;
  const std::uint64_t least_bytes = std::min(kLeastChunks * options_.copied_chunk_bytes, most_bytes);
  peer.window.limit({peer.moves_memory ? most_bytes : least_bytes, most_bytes});
  return &transfer;
}

void Transfers::queue(std::uint64_t id, Peer& peer) {
  peer.ready.push_back(id);
  if (!std::exchange(peer.in_turn, true)) turns_.push_back(&peer);
}

void Transfers::begin(Way way, Peer& peer, const Block& from, const Block& to, MoveCompletion& completion,
                      const BlockId* block) {
  const std::uint64_t id = next_transfer_++;
  Transfer* made = make(id, way, peer, from, to, completion);
  if (made == nullptr) return;
  Transfer& transfer = *made;
  EagerBlock* eager = block == nullptr ? nullptr : peer.eager.find(*block);
  if (eager != nullptr && eager->transfer == 0) {
    take_eager(transfer, id, *eager);
    if (transfer.status != MoveStatus::ok || transfer.started_bytes == from.bytes) return finish_if_done(id, transfer);
  }
  queue(id, peer);
}

// Chunks have whole elements.
void Transfers::begin_reduced(Peer& peer, const Block& from, wire::OtherOperands others, const Block& to,
                              MoveCompletion& completion) {
  const std::uint64_t id = next_transfer_++;
  Transfer* transfer = make(id, Way::pull, peer, from, to, completion);
  if (transfer == nullptr) return;
  const std::uint64_t width = others.reduction.element_bytes();
  transfer->chunk_bytes = std::max(width, transfer->chunk_bytes / width * width);
  transfer->others = std::move(others);
  queue(id, peer);
}

void Transfers::cancel(MoveCompletion& completion) {
  finished_.forget(completion);
  for (auto item = transfers_.begin(); item != transfers_.end(); ++item) {
    Transfer& transfer = item->second;
    if (transfer.completion != &completion) continue;
    transfer.completion = nullptr;
    transfer.status = MoveStatus::owner_lost;  // starts no more chunks
    const std::uint64_t id = item->first;
    finish_if_done(id, transfer);
    return await_landing(id);
  }
}

// UCX cannot cancel a receive. The source has the bytes ready, so this takes the time of a few chunks.
void Transfers::await_landing(std::uint64_t id) {
  const auto deadline = std::chrono::steady_clock::now() + kLandingTime;
  const auto landing = [](const Transfer::Chunk& chunk) { return chunk.state == ChunkState::landing; };
  while (true) {
    const auto found = transfers_.find(id);
    if (found == transfers_.end() || std::ranges::none_of(found->second.open_chunks, landing)) return;
    const bool goes_on = memory_.progress_memory();
    if (!network_.data().progress() && !goes_on && std::chrono::steady_clock::now() > deadline) {
      return peers_.lose(*found->second.peer, "failed to send an offered chunk");
    }
  }
}

void Transfers::give_up(const Peer& peer) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.peer == &peer) ids.push_back(id);
  }
  for (const std::uint64_t id : ids) {
    Transfer& transfer = transfers_.at(id);
    for (std::size_t i = transfer.open_chunks.size(); i > 0; --i) {
      if (transfer.open_chunks[i - 1].state != ChunkState::landing) close_chunk(transfer, i - 1);
    }
    if (transfer.status == MoveStatus::ok) transfer.status = MoveStatus::owner_lost;
    finish_if_done(id, transfer);
  }
}

void Transfers::begin_again(const Peer& former, Peer& fresh) {
  std::erase(turns_, &former);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.peer == &former) ids.push_back(id);
  }
  std::ranges::sort(ids);  // in the order of their start
  for (const std::uint64_t id : ids) {
    Transfer transfer = std::move(transfers_.extract(id).mapped());
    for (const Transfer::Chunk& chunk : transfer.open_chunks) window_used_bytes_ -= transfer.charge_at(chunk.offset);
    if (transfer.completion == nullptr) continue;
    if (transfer.others) {
      begin_reduced(fresh, transfer.from, std::move(*transfer.others), transfer.to, *transfer.completion);
      continue;
    }
    begin(transfer.pulls ? Way::pull : Way::push, fresh, transfer.from, transfer.to, *transfer.completion);
  }
}

bool Transfers::start_chunks() {
  bool any = false;
  std::size_t stuck = 0;
  while (!turns_.empty() && stuck < turns_.size() && window_used_bytes_ < options_.window_bytes) {
    Peer& peer = *turns_.front();
    turns_.pop_front();
    if (start_chunk(peer)) {
      any = true;
      stuck = 0;
    } else {
      ++stuck;
    }
    peer.in_turn = !peer.ready.empty();
    if (peer.in_turn) turns_.push_back(&peer);
  }
  return any;
}

bool Transfers::start_chunk(Peer& peer) {
  if (peer.ready.empty()) return false;
  const std::uint64_t id = peer.ready.front();
  const auto found = transfers_.find(id);
  if (found == transfers_.end() || found->second.status != MoveStatus::ok) {
    peer.ready.pop_front();
    return true;
  }
  Transfer& transfer = found->second;
  const std::uint64_t charge = transfer.charge_at(transfer.started_bytes);
  if (!peer.window.may_begin(charge)) return false;
  const std::optional<MoveStatus> begun = ask_or_send(id, transfer);
  if (!begun) return false;
  peer.ready.pop_front();
  if (*begun == MoveStatus::ok) {
    chunk_begun(id, transfer);
  } else {
    transfer.status = *begun;
    finish_if_done(id, transfer);
  }
  return true;
}

std::optional<MoveStatus> Transfers::ask_or_send(std::uint64_t id, const Transfer& transfer) {
  const std::uint64_t offset = transfer.started_bytes;
  wire::Header chunk = peers_.header(transfer.pulls ? wire::Kind::request : wire::Kind::push);
  chunk.move = id;
  chunk.offset = offset;
  chunk.bytes = transfer.bytes_at(offset);
  chunk.memory = transfer.remote_at(offset);
  if (!transfer.pulls) {
    return sender_.send(
        *transfer.peer, chunk, transfer.local_at(offset),
        [this](Peer& /*peer*/, const wire::Header& unread, MoveStatus status) { chunk_ended(unread, status); });
  }
  if (transfer.others) {
    ask_reduced(transfer, chunk);
  } else {
    channels_.say(*transfer.peer, chunk);
  }
  return MoveStatus::ok;
}

void Transfers::ask_reduced(const Transfer& transfer, wire::Header chunk) {
  chunk.kind = wire::Kind::reduced_request;
  wire::OtherOperands others = *transfer.others;
  for (MemoryRef& other : others.others) other = other.at(chunk.offset);
  channels_.say(*transfer.peer, chunk, encoded(others));
}

void Transfers::chunk_begun(std::uint64_t id, Transfer& transfer) {
  const std::uint64_t offset = transfer.started_bytes;
  const std::uint64_t charge = transfer.charge_at(offset);
  Peer& peer = *transfer.peer;
  assert(transfer.open_chunk(offset) == nullptr && "a chunk is begun once");
  transfer.started_bytes += transfer.bytes_at(offset);
  transfer.open_chunks.push_back({offset, ChunkState::awaited, PeerWindow::Clock::now()});
  peer.window.begun(charge);
  window_used_bytes_ += charge;
  assert(peer.window.used_bytes() <= options_.peer_window_bytes && "a peer's window is not exceeded");
  assert(window_used_bytes_ < options_.window_bytes + options_.chunk_bytes &&
         "at most one chunk exceeds the total window");
  if (transfer.started_bytes < transfer.from.bytes) peer.ready.push_back(id);
}

void Transfers::close_chunk(Transfer& transfer, std::size_t index) {
  const std::uint64_t charge = transfer.charge_at(transfer.open_chunks[index].offset);
  assert(window_used_bytes_ >= charge && "a chunk is charged once");
  transfer.peer->window.ended(charge);
  window_used_bytes_ -= charge;
  transfer.open_chunks.erase(transfer.open_chunks.begin() + static_cast<std::ptrdiff_t>(index));
}

Transfer* Transfers::find(const Peer& peer, const wire::Header& chunk, Way way) {
  const auto found = transfers_.find(chunk.move);
  if (found == transfers_.end()) return nullptr;
  Transfer& transfer = found->second;
  if (transfer.pulls != (way == Way::pull) || transfer.peer != &peer || transfer.open_chunk(chunk.offset) == nullptr ||
      chunk.bytes != transfer.bytes_at(chunk.offset)) {
    return nullptr;
  }
  return &transfer;
}

void Transfers::set_chunk_state(const wire::Header& header, ChunkState state) {
  const auto found = transfers_.find(header.move);
  if (found == transfers_.end()) return;
  Transfer::Chunk* chunk = found->second.open_chunk(header.offset);
  if (chunk == nullptr) return;
  assert(state != ChunkState::awaited && "a chunk that has come is not requested again");
  assert((state != ChunkState::landing || chunk->state != ChunkState::landing) && "a chunk lands once");
  chunk->state = state;
}

void Transfers::chunk_ended(const wire::Header& chunk, MoveStatus status) {
  const auto found = transfers_.find(chunk.move);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  const auto open = std::ranges::find(transfer.open_chunks, chunk.offset, &Transfer::Chunk::offset);
  if (open == transfer.open_chunks.end()) return;
  if (status == MoveStatus::ok) {
    transfer.peer->window.arrived(transfer.charge_at(chunk.offset), PeerWindow::Clock::now() - open->begun);
  }
  close_chunk(transfer, static_cast<std::size_t>(open - transfer.open_chunks.begin()));
  if (transfer.status == MoveStatus::ok) transfer.status = status;
  finish_if_done(chunk.move, transfer);
}

// Later eager bytes of a failed move are dropped.
void Transfers::finish_if_done(std::uint64_t id, Transfer& transfer) {
  if (!transfer.open_chunks.empty()) return;
  const bool all_came = transfer.started_bytes == transfer.from.bytes && transfer.eager_block == 0;
  if (transfer.status == MoveStatus::ok && !all_came) return;
  if (transfer.eager_block != 0) transfer.peer->eager.give_up(transfer.eager_block);
  if (transfer.completion != nullptr) {
    finished_.add(*transfer.completion, MoveOutcome{transfer.status, Reach::wire});
  }
  transfers_.erase(id);
}

// Received eager bytes are placed now, later ones when they come.
void Transfers::take_eager(Transfer& transfer, std::uint64_t id, EagerBlock& block) {
  transfer.started_bytes = std::min(block.bytes, transfer.from.bytes);
  for (const auto& [offset, bytes] : block.chunks) place_eager(transfer, offset, bytes);
  if (block.complete()) return transfer.peer->eager.erase(block.number);
  transfer.peer->eager.drop_chunks(block);
  block.transfer = id;
  transfer.eager_block = block.number;
}

void Transfers::place_eager(Transfer& transfer, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (transfer.status != MoveStatus::ok || offset >= transfer.to.bytes) return;
  const auto wanted = std::min<std::uint64_t>(bytes.size(), transfer.to.bytes - offset);
  transfer.status = memory_.write(transfer.local_at(offset), bytes.first(wanted));
}

void Transfers::eager_chunk_came(std::uint64_t id, std::uint64_t offset, std::span<const std::byte> bytes, bool last) {
  Transfer& transfer = transfers_.at(id);
  place_eager(transfer, offset, bytes);
  if (last) transfer.eager_block = 0;
  finish_if_done(id, transfer);
}

void Transfers::eager_ended(std::uint64_t id, MoveStatus status) {
  Transfer& transfer = transfers_.at(id);
  transfer.eager_block = 0;
  if (transfer.status == MoveStatus::ok) transfer.status = status;
  finish_if_done(id, transfer);
}

}  // namespace outrigger::fabric::ucx
