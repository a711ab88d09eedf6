#include "fabric/ucx/eager.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

namespace outrigger::fabric::ucx {
namespace {

constexpr const char* kMalformedEager = "sent a malformed eager message";
// Up to this many bytes are part of the notice.
constexpr std::uint64_t kBytesWithNotice = 4096;

}  // namespace

std::uint64_t EagerSender::bytes_allowed(const Peer& reader, std::uint64_t bytes) const {
  if (reader.eager_room_bytes < kLeastCharge) return 0;
  if (bytes <= std::min(reader.eager_room_bytes, kBytesWithNotice)) return bytes;
  if (reader.moves_memory) return 0;
  if (bytes <= reader.eager_room_bytes) return bytes;
  return reader.eager_room_bytes - reader.eager_room_bytes % options_.copied_chunk_bytes;
}

void EagerSender::send(const BlockId& id, const Block& from, Peer& reader) {
  // Remote memory would have to be read first: a request is answered as fast.
  if (memory_.is_remote()) return;
  if (reader.is_gone() || !channels_.learn_route(reader)) return;
  const std::uint64_t bytes = bytes_allowed(reader, from.bytes);
  if (bytes == 0) return;
  std::vector<std::byte> payload = encoded(id);
  const bool with_notice = bytes <= kBytesWithNotice;
  if (with_notice) {
    payload.resize(sizeof(id) + bytes);
    const MoveStatus status = memory_.read(from.memory, std::span(payload).subspan(sizeof(id)));
    if (status != MoveStatus::ok) return;  // the answer to a request will report it
  }
  const Sent sent{&reader, ++reader.eager_sent, std::max(bytes, kLeastCharge)};
  assert(reader.eager_room_bytes >= sent.charge_bytes && "eager bytes fit in the peer's room");
  reader.eager_room_bytes -= sent.charge_bytes;
  sent_.emplace(id, sent);
  wire::Header notice = peers_.header(wire::Kind::eager);
  notice.offset = sent.number;
  notice.bytes = bytes;
  channels_.say_in_order(reader, notice, payload);
  if (with_notice) return;
  wire::Header chunk = peers_.header(wire::Kind::eager_chunk);
  chunk.move = sent.number;
  chunk.memory = from.memory;
  for (; chunk.offset < bytes; chunk.offset += chunk.bytes, chunk.memory.address += chunk.bytes) {
    chunk.bytes = std::min(options_.copied_chunk_bytes, bytes - chunk.offset);
    server_.add_eager(reader, chunk);
  }
}

void EagerSender::withdraw(const BlockId& id) {
  const auto found = sent_.find(id);
  if (found == sent_.end()) return;
  const Sent sent = found->second;
  sent_.erase(found);
  sent.reader->eager_room_bytes += sent.charge_bytes;
  if (server_.withdraw_eager(*sent.reader, sent.number) == 0) return;
  wire::Header end = peers_.header(wire::Kind::eager_chunk);
  end.status = static_cast<std::uint16_t>(MoveStatus::owner_lost);
  end.move = sent.number;
  channels_.say(*sent.reader, end);
}

void EagerSender::forget(const Peer& former) {
  std::erase_if(sent_, [&](const auto& sent) { return sent.second.reader == &former; });
}

void EagerReceiver::notice_arrived(Peer& peer, const Peer::Ordered& notice) {
  std::span<const std::byte> bytes(notice.payload);
  const std::optional<BlockId> id = take_first<BlockId>(bytes);
  if (!id || memory_.is_remote()) return peer.break_off(kMalformedEager);
  if (!bytes.empty() && bytes.size() != notice.header.bytes) return peer.break_off(kMalformedEager);
  const std::uint64_t number = notice.header.offset;
  const EagerBlock* block = peer.eager.notice(number, *id, notice.header.bytes);
  if (block == nullptr) return peer.break_off(kMalformedEager);
  if (!bytes.empty()) return take(peer, number, 0, bytes);
  if (block->unwanted && block->complete()) peer.eager.erase(number);
}

void EagerReceiver::chunk_arrived(Peer& peer, const wire::Header& header, std::span<const std::byte> bytes) {
  if (header.status == 0) return take(peer, header.move, header.offset, bytes);
  const EagerBlock* block = peer.eager.find(header.move);
  if (block == nullptr) return;
  const std::uint64_t transfer = block->transfer;
  peer.eager.erase(header.move);
  if (transfer != 0) transfers_.eager_ended(transfer, static_cast<MoveStatus>(header.status));
}

void EagerReceiver::take(Peer& peer, std::uint64_t number, std::uint64_t offset, std::span<const std::byte> bytes) {
  const EagerBlock* block = peer.eager.chunk_came(number, offset, bytes.size());
  if (block == nullptr) return peer.break_off(kMalformedEager);
  received_bytes_ += bytes.size();
  const std::uint64_t transfer = block->transfer;
  const bool complete = block->complete();
  if (transfer == 0 && !block->unwanted) return peer.eager.keep(number, offset, bytes);
  if (complete) peer.eager.erase(number);
  if (transfer != 0) transfers_.eager_chunk_came(transfer, offset, bytes, complete);
}

void EagerReceiver::forget(Peer& peer, const BlockId& id) {
  if (peer.eager.empty()) return;
  if (const EagerBlock* block = peer.eager.find(id)) peer.eager.give_up(block->number);
}

}  // namespace outrigger::fabric::ucx
