#include "fabric/ucx/chunk_sender.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/ucx/remote_reduction.hpp"

namespace outrigger::fabric::ucx {
namespace {

constexpr std::uint64_t kMostPlaces = 4;  // of operands that are read at the same time

}  // namespace

std::optional<MoveStatus> ChunkSender::send(Peer& peer, const wire::Header& header, const MemoryRef& from,
                                            const Failed& failed) {
  NodeMemory::View view = memory_.view(from, header.bytes);
  StagingBuffer staging;
  if (view.status == MoveStatus::ok && view.bytes == nullptr) {
    staging = staging_.take();
    if (!staging.valid()) return std::nullopt;
    if (memory_.is_remote()) {
      fetch_and_send(peer, header, from, std::move(staging), failed);
      return MoveStatus::ok;
    }
    view.status = memory_.read(from, std::span(staging.data(), header.bytes));
    view.bytes = staging.data();
  }
  if (view.status == MoveStatus::ok) {
    channels_.send_chunk(peer, header, view.bytes, std::move(view.hold), std::move(staging));
  }
  return view.status;
}

MoveStatus ChunkSender::say(Peer& peer, const wire::Header& header, const MemoryRef& from) {
  NodeMemory::View view = memory_.view(from, header.bytes);
  std::vector<std::byte> read;
  if (view.status == MoveStatus::ok && view.bytes == nullptr) {
    read.resize(header.bytes);
    view.status = memory_.read(from, read);
    view.bytes = read.data();
  }
  if (view.status == MoveStatus::ok) channels_.say(peer, header, std::span(view.bytes, header.bytes));
  return view.status;
}

std::optional<MoveStatus> ChunkSender::send_reduced(Peer& peer, const wire::Header& header, const ReduceRanges& ranges,
                                                    const Failed& failed) {
  StagingBuffer staging = staging_.take();
  if (!staging.valid()) return std::nullopt;
  if (memory_.is_remote()) {
    fetch_reduce_and_send(peer, header, ranges, std::move(staging), failed);
    return MoveStatus::ok;
  }
  const std::byte* result = staging.data();
  const MoveStatus status = reducer_.reduce_to(ranges, 0, std::span(staging.data(), header.bytes)).status;
  if (status == MoveStatus::ok) channels_.send_chunk(peer, header, result, nullptr, std::move(staging));
  return status;
}

void ChunkSender::fetch_and_send(Peer& peer, const wire::Header& header, const MemoryRef& from, StagingBuffer staging,
                                 const Failed& failed) {
  auto held = std::make_shared<StagingBuffer>(std::move(staging));
  const std::span<std::byte> bytes(held->data(), header.bytes);
  memory_.start_read(from, bytes, [this, &peer, header, held, failed](MoveStatus status) {
    if (channels_.closing()) return;
    channels_.set_busy();
    if (status != MoveStatus::ok) return failed(peer, header, status);
    const std::byte* read = held->data();
    channels_.send_chunk(peer, header, read, nullptr, std::move(*held));
  });
}

// The staging buffers limit the number of these in flight, though the operands need more room.
void ChunkSender::fetch_reduce_and_send(Peer& peer, const wire::Header& header, const ReduceRanges& ranges,
                                        StagingBuffer staging, const Failed& failed) {
  const std::uint64_t places = std::min<std::uint64_t>(ranges.operands.size(), kMostPlaces);
  const auto room = std::make_shared<std::vector<std::byte>>(places * header.bytes);
  const auto held = std::make_shared<StagingBuffer>(std::move(staging));
  const auto done = [this, &peer, header, room, held, failed](MoveStatus status) {
    if (channels_.closing()) return;
    channels_.set_busy();
    if (status != MoveStatus::ok) return failed(peer, header, status);
    channels_.send_chunk(peer, header, room->data(), room, std::move(*held));
  };
  RemoteReduction::start(memory_, ranges.reduction, ranges.operands, *room, header.bytes, done);
}

}  // namespace outrigger::fabric::ucx
