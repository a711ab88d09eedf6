#include "fabric/host/service_copies.hpp"

#include <algorithm>
#include <span>

#include "fabric/host/lanes/cma.hpp"
#include "fabric/host/lanes/xpmem_windows.hpp"

namespace outrigger::fabric {
namespace {

using copy::Lane;
using copy::Memory;

Memory kind_of(const std::byte* mapped, const std::byte* attached) {
  if (mapped != nullptr) return Memory::mapped;
  return attached != nullptr ? Memory::attachable : Memory::private_memory;
}

Lane own_lane(Memory from, Memory to) {
  return copy::lane_of(from, to, false, false);
}

}  // namespace

bool ServiceCopies::copy_some(const Turn& turn) {
  bool worked = false;
  std::uint64_t budget = turn.bytes;
  for (std::uint32_t chunks = 0; chunks < turn.chunks && !queue_.empty(); ++chunks) {
    if (chunks != 0 && std::min(turn.chunk_bytes, queue_.front().bytes) > budget) break;
    Chunk chunk = queue_.pop();
    const Chunk rest = chunk.cut(turn.chunk_bytes);
    if (rest.bytes != 0) queue_.push_back(rest);
    Lane lane = Lane::direct;
    const MoveStatus status = copy_chunk(chunk, lane);
    budget -= std::min(budget, chunk.bytes);
    worked = true;
    moves_.settle(chunk, status, lane);
    moves_.deliver_ended();
  }
  return worked;
}

MoveStatus ServiceCopies::copy_chunk(const Chunk& chunk, Lane& lane) {
  const HostMove& move = *chunk.move;
  const MemoryRef& from = move.from.memory;
  const MemoryRef& to = move.to.memory;
  RankMemory* source = ranks_.find(from.owner);
  RankMemory* destination = ranks_.find(to.owner);
  if (source == nullptr || destination == nullptr) return MoveStatus::owner_lost;
  // Checks whole ranges first: nothing is copied if a block is partly out of bounds.
  std::byte* read = source->mapped(from.region, from.address, move.from.bytes);
  std::byte* write = destination->mapped(to.region, to.address, move.to.bytes);
  if ((read == nullptr && !source->accessible(from.region, from.address, move.from.bytes)) ||
      (write == nullptr && !destination->accessible(to.region, to.address, move.to.bytes))) {
    return MoveStatus::memory_fault;
  }
  if (read != nullptr) read += chunk.offset;
  if (write != nullptr) write += chunk.offset;
  const std::uint64_t from_address = from.address + chunk.offset;
  const std::uint64_t to_address = to.address + chunk.offset;
  // The second call may detach the first window, but then it returns nullptr itself.
  const std::byte* attached_read = read != nullptr ? read : source->attached(from_address, chunk.bytes);
  std::byte* attached_write = write != nullptr ? write : destination->attached(to_address, chunk.bytes);
  lane = own_lane(kind_of(read, attached_read), kind_of(write, attached_write));
  if (lane == Lane::direct) {
    copy_direct(kernel(), write, read, chunk.bytes);
    return MoveStatus::ok;
  }
  if (lane == Lane::xpmem) {
    if (copy_guarded(attached_write, attached_read, chunk.bytes)) return MoveStatus::ok;
    // Missing, or not attachable: cross-memory attach finds out which.
    lane = own_lane(kind_of(read, nullptr), kind_of(write, nullptr));
  }
  if (lane == Lane::relay) {
    return relay_.copy(source->pid(), from_address, destination->pid(), to_address, chunk.bytes);
  }
  if (write != nullptr) return read_from_process(source->pid(), from_address, std::span(write, chunk.bytes));
  return write_to_process(destination->pid(), to_address, std::span<const std::byte>(read, chunk.bytes));
}

// The moves in flight do not fit in the cache, so readers would find nothing there.
CopyKernel ServiceCopies::kernel() const {
  const bool past = cache_bytes_ != 0 && 2 * moves_.bytes_under_way() >= cache_bytes_;
  return past ? CopyKernel::streaming : CopyKernel::cached;
}

}  // namespace outrigger::fabric
