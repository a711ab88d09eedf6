// Moves: queued, cut into pieces, copied here or by copiers, ended.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fabric/host/copy_kernel.hpp"
#include "fabric/host/cross_memory.hpp"
#include "fabric/host/guarded_copy.hpp"
#include "fabric/host/host_fabric.hpp"

namespace outrigger::fabric {
namespace {

constexpr std::uint64_t kStagingBytes = 256U << 10;  // half of a usual second-level cache
constexpr std::size_t kSpareMoves = 64;

// Of two pieces' reaches the one that says more of what the move has cost.
Reach dearer(Reach one, Reach other) {
  if (one == Reach::relay || other == Reach::relay) return Reach::relay;
  return one == Reach::mapped ? other : one;
}

// Those of one owner may.
bool overlap(const std::byte* one, const std::byte* other, std::uint64_t bytes) {
  const auto distance = static_cast<std::uint64_t>(one < other ? other - one : one - other);
  return distance < bytes;
}

}  // namespace

void HostFabric::move(const Block& from, const Block& to, MoveCompletion& completion) {
  if (from.bytes == 0 || from.bytes != to.bytes) std::abort();  // against the contract: a bug of ours
  if (spare_moves_.empty()) spare_moves_.emplace_back();
  moves_.splice(moves_.end(), spare_moves_, spare_moves_.begin());
  HostMove& move = moves_.back();
  move = HostMove{from, to, &completion, from.bytes, 0, MoveStatus::ok, Reach::mapped, std::prev(moves_.end())};
  bytes_under_way_ += from.bytes;
  queue(Piece{&move, to.memory.owner, 0, from.bytes});
}

void HostFabric::cancel(MoveCompletion& completion) {
  std::erase_if(ended_, [&](const Ended& ended) { return ended.completion == &completion; });
  const auto found = std::ranges::find(moves_, &completion, &HostMove::completion);
  if (found == moves_.end()) return;
  forget_pieces(*found);
  retire(*found);
}

bool HostFabric::progress() {
  bool worked = false;
  if (messages_waiting_ != 0) {
    for (auto& [id, peer] : peers_) worked |= send_waiting(peer);
  }
  if (!helping_.empty()) {
    worked |= take_in();
    worked |= deliver_ended();
    worked |= lend_out();
  }
  worked |= copy_directly();
  if (!helping_.empty()) {
    lend_core();
    worked |= take_in();
  }
  worked |= deliver_ended();
  return worked;
}

bool HostFabric::copy_directly() {
  bool worked = false;
  std::uint64_t budget = options_.progress_bytes;
  for (std::uint32_t turns = 0; turns < options_.progress_moves && !queue_.empty(); ++turns) {
    Piece piece = queue_.front();
    Piece rest = piece;
    piece.bytes = std::min(options_.chunk_bytes, piece.bytes);
    if (turns != 0 && piece.bytes > budget) break;
    queue_.pop_front();
    rest.offset += piece.bytes;
    rest.bytes -= piece.bytes;
    if (rest.bytes != 0) queue_.push_back(rest);
    Reach reach = Reach::mapped;
    const MoveStatus status = copy_piece(piece, reach);
    budget -= std::min(budget, piece.bytes);
    worked = true;
    settle(piece, status, reach);
    (void)deliver_ended();
  }
  return worked;
}

MoveStatus HostFabric::copy_piece(const Piece& piece, Reach& reach) {
  const HostMove& move = *piece.move;
  const MemoryRef& from = move.from.memory;
  const MemoryRef& to = move.to.memory;
  const RankMemory* source = rank(from.owner);
  const RankMemory* destination = rank(to.owner);
  if (source == nullptr || destination == nullptr) return MoveStatus::owner_lost;
  // Whole ranges, so that nothing is copied of a block that is partly out of bounds.
  std::byte* read = source->mapped(from.region, from.address, move.from.bytes);
  std::byte* write = destination->mapped(to.region, to.address, move.to.bytes);
  if ((read == nullptr && !source->accessible(from.region, from.address, move.from.bytes)) ||
      (write == nullptr && !destination->accessible(to.region, to.address, move.to.bytes))) {
    return MoveStatus::memory_fault;
  }
  if (read != nullptr) read += piece.offset;
  if (write != nullptr) write += piece.offset;
  const std::uint64_t from_address = from.address + piece.offset;
  const std::uint64_t to_address = to.address + piece.offset;
  if (read != nullptr && write != nullptr) {
    reach = Reach::mapped;
    if (overlap(write, read, piece.bytes)) {
      std::memmove(write, read, piece.bytes);
    } else {
      copy_bytes(kernel(), write, read, piece.bytes);
    }
    return MoveStatus::ok;
  }
  // The second call may detach what the first has given, but then gives nothing itself.
  std::byte* attached_read = read != nullptr ? read : attached(from, from_address, piece.bytes);
  std::byte* attached_write = write != nullptr ? write : attached(to, to_address, piece.bytes);
  if (attached_read != nullptr && attached_write != nullptr) {
    reach = Reach::xpmem;
    if (copy_guarded(attached_write, attached_read, piece.bytes)) return MoveStatus::ok;
    // Not there, or not to be attached: cross-memory attach knows which.
  }
  if (write != nullptr) {
    reach = Reach::cma;
    return read_from_process(source->pid(), from_address, std::span(write, piece.bytes));
  }
  if (read != nullptr) {
    reach = Reach::cma;
    return write_to_process(destination->pid(), to_address, std::span<const std::byte>(read, piece.bytes));
  }
  reach = Reach::relay;
  return relay(*source, from_address, *destination, to_address, piece.bytes);
}

// What is read and written by the moves under way does not fit in the cache: nobody will find anything there.
CopyKernel HostFabric::kernel() const {
  const bool past = cache_bytes_ != 0 && 2 * bytes_under_way_ >= cache_bytes_;
  return past ? CopyKernel::streaming : CopyKernel::cached;
}

bool HostFabric::in_reach(const MemoryRef& memory) {
  const Rank* owner = find(memory.owner);
  return memory.region != kPrivateRegion || (owner != nullptr && owner->windows);
}

std::byte* HostFabric::attached(const MemoryRef& memory, std::uint64_t address, std::uint64_t bytes) {
  Rank* owner = find(memory.owner);
  if (owner == nullptr || !owner->windows) return nullptr;
  std::byte* bytes_here = owner->windows->at(address, bytes);
  if (bytes_here == nullptr) owner->windows.reset();  // a copier serves better than an attachment that is not to be had
  return bytes_here;
}

MoveStatus HostFabric::relay(const RankMemory& from, std::uint64_t from_address, const RankMemory& to,
                             std::uint64_t to_address, std::uint64_t bytes) {
  if (staging_.empty()) staging_.resize(kStagingBytes);
  while (bytes > 0) {
    const std::span<std::byte> part(staging_.data(), std::min(bytes, kStagingBytes));
    const MoveStatus read = read_from_process(from.pid(), from_address, part);
    if (read != MoveStatus::ok) return read;
    const MoveStatus written = write_to_process(to.pid(), to_address, part);
    if (written != MoveStatus::ok) return written;
    from_address += part.size();
    to_address += part.size();
    bytes -= part.size();
  }
  return MoveStatus::ok;
}

void HostFabric::settle(const Piece& piece, MoveStatus status, Reach reach) {
  HostMove& move = *piece.move;
  move.left_bytes -= piece.bytes;
  move.reach = dearer(move.reach, reach);
  if (status != MoveStatus::ok && move.status == MoveStatus::ok) {
    move.status = status;
    forget_queued(move);
  }
  end_if_over(move);
}

// A move that has failed ends when no copier touches its memory any more.
void HostFabric::end_if_over(HostMove& move) {
  if (move.lent != 0 || (move.left_bytes != 0 && move.status == MoveStatus::ok)) return;
  ended_.push_back(Ended{move.completion, MoveOutcome{move.status, move.reach}});
  retire(move);
}

void HostFabric::retire(HostMove& move) {
  bytes_under_way_ -= move.from.bytes;
  if (spare_moves_.size() < kSpareMoves) {
    spare_moves_.splice(spare_moves_.end(), moves_, move.self);
  } else {
    moves_.erase(move.self);
  }
}

// Callees may start and cancel moves as they like.
bool HostFabric::deliver_ended() {
  bool any = false;
  while (!ended_.empty()) {
    const Ended ended = ended_.front();
    ended_.pop_front();
    ended.completion->moved(ended.outcome);
    any = true;
  }
  return any;
}

}  // namespace outrigger::fabric
