// Blocks that are sent before they are asked for: on their way out, and on their way in.
#include <algorithm>
#include <utility>

#include "fabric/ucx/wire.hpp"

namespace outrigger::fabric::ucx {
namespace {

constexpr const char* kMalformedAhead = "sends ahead what is not to be understood";
// So few bytes travel with the notice.
constexpr std::uint64_t kBytesWithNotice = 4096;

}  // namespace

// ---------------------------------------------------------------- out

std::uint64_t Wire::bytes_eager(const Link& link, std::uint64_t bytes) const {
  if (link.eager_room_bytes < kLeastCharge) return 0;
  if (bytes <= std::min(link.eager_room_bytes, kBytesWithNotice)) return bytes;
  if (link.moves_memory) return 0;
  if (bytes <= link.eager_room_bytes) return bytes;
  return link.eager_room_bytes - link.eager_room_bytes % options_.copied_chunk_bytes;
}

void Wire::send_eager(const BlockId& id, const Block& from, SpId reader) {
  Link& link = link_of(reader);
  // What is elsewhere would have to come here first: whoever asks for it is served as soon.
  if (memory_.is_remote()) return;
  if (link.broken || link.departed || endpoint(link, Line::data) == nullptr) return;
  const std::uint64_t bytes = bytes_eager(link, from.bytes);
  if (bytes == 0) return;
  const wire::EncodedBlockId name = wire::encode_block_id(id);
  std::vector<std::byte> payload(name.begin(), name.end());
  const bool with_notice = bytes <= kBytesWithNotice;
  if (with_notice) {
    payload.resize(name.size() + bytes);
    const MoveStatus status = memory_.read(from.memory, std::span(payload).subspan(name.size()));
    if (status != MoveStatus::ok) return;  // whoever asks for it will be told
  }
  const SentEager sent{&link, ++link.eager_sent, std::max(bytes, kLeastCharge)};
  link.eager_room_bytes -= sent.charge_bytes;
  sent_eager_.emplace(id, sent);
  wire::Header notice = header(wire::Kind::ahead);
  notice.move = link.messages_sent++;
  notice.offset = sent.number;
  notice.bytes = bytes;
  say(link, notice, payload);
  if (with_notice) return;
  busy_ = true;
  wire::Header part = header(wire::Kind::part);
  part.move = sent.number;
  part.memory = from.memory;
  for (; part.offset < bytes; part.offset += part.bytes, part.memory.address += part.bytes) {
    part.bytes = std::min(options_.copied_chunk_bytes, bytes - part.offset);
    answer_later(link, part);
  }
}

void Wire::withdraw_eager(const BlockId& id) {
  const auto found = sent_eager_.find(id);
  if (found == sent_eager_.end()) return;
  const SentEager sent = found->second;
  sent_eager_.erase(found);
  sent.link->eager_room_bytes += sent.charge_bytes;
  const std::size_t unsent = std::erase_if(sent.link->to_send, [&](const wire::Header& request) {
    return request.kind == wire::Kind::part && request.move == sent.number;
  });
  if (unsent == 0) return;
  wire::Header end = header(wire::Kind::part);
  end.status = static_cast<std::uint16_t>(MoveStatus::owner_lost);
  end.move = sent.number;
  say(*sent.link, end);
}

// ---------------------------------------------------------------- in

void Wire::notice_arrived(Link& link, const Ordered& notice) {
  const std::span<const std::byte> payload(notice.payload);
  const std::optional<BlockId> id = wire::decode_block_id(payload);
  if (!id || memory_.is_remote()) return break_off(link, kMalformedAhead);
  const std::span<const std::byte> bytes = payload.subspan(wire::kBlockIdBytes);
  if (!bytes.empty() && bytes.size() != notice.header.bytes) return break_off(link, kMalformedAhead);
  const std::uint64_t number = notice.header.offset;
  EagerBlock* block = nullptr;
  with_eager(link, [&] { block = link.ahead.notice(number, *id, notice.header.bytes); });
  if (block == nullptr) return break_off(link, kMalformedAhead);
  if (!bytes.empty()) return take_part(link, number, 0, bytes);
  if (block->unwanted && block->complete()) link.ahead.erase(number);
}

void Wire::part_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data) {
  if (header.status == 0) {
    moved_bytes_ += header.bytes;
    return take_part(link, header.move, header.offset, data);
  }
  const EagerBlock* block = link.ahead.find(header.move);
  if (block == nullptr) return;
  const std::uint64_t id = block->transfer;
  with_eager(link, [&] { link.ahead.erase(header.move); });
  if (id == 0) return;
  Transfer& transfer = transfers_.at(id);
  transfer.ahead = 0;
  if (transfer.status == MoveStatus::ok) transfer.status = static_cast<MoveStatus>(header.status);
  finish_if_done(id, transfer);
}

void Wire::take_part(Link& link, std::uint64_t number, std::uint64_t offset, std::span<const std::byte> data) {
  EagerBlock* block = nullptr;
  with_eager(link, [&] { block = link.ahead.part_came(number, offset, data.size()); });
  if (block == nullptr) return break_off(link, kMalformedAhead);
  const std::uint64_t id = block->transfer;
  const bool complete = block->complete();
  if (id == 0) {
    if (!block->unwanted) return link.ahead.keep(number, offset, data);
    if (complete) link.ahead.erase(number);
    return;
  }
  Transfer& transfer = transfers_.at(id);
  place_eager(transfer, offset, data);
  if (complete) {
    link.ahead.erase(number);
    transfer.ahead = 0;
  }
  finish_if_done(id, transfer);
}

void Wire::pull_block(const BlockId& id, SpId source, const Block& from, const Block& to, MoveCompletion& completion) {
  begin(true, source, from, to, completion, &id);
}

// What has come is put to its place; what has not come yet will be.
void Wire::take_eager(Transfer& transfer, std::uint64_t id, EagerBlock& block) {
  transfer.started_bytes = std::min(block.bytes, transfer.from.bytes);
  for (const auto& [offset, part] : block.parts) place_eager(transfer, offset, part);
  if (block.complete()) return transfer.link->ahead.erase(block.number);
  transfer.link->ahead.drop_parts(block);
  block.transfer = id;
  transfer.ahead = block.number;
}

void Wire::place_eager(Transfer& transfer, std::uint64_t offset, std::span<const std::byte> part) {
  if (transfer.status != MoveStatus::ok || offset >= transfer.to.bytes) return;
  transfer.status = memory_.write(local_part(transfer, offset),
                                  part.first(std::min<std::uint64_t>(part.size(), transfer.to.bytes - offset)));
}

void Wire::give_up_eager(Link& link, std::uint64_t number) {
  with_eager(link, [&] { link.ahead.give_up(number); });
}

void Wire::forget_eager(const BlockId& id, SpId source) {
  Link& link = link_of(source);
  if (link.ahead.empty()) return;
  if (const EagerBlock* block = link.ahead.find(id)) give_up_eager(link, block->number);
}

}  // namespace outrigger::fabric::ucx
