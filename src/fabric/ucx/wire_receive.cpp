// What comes in: control messages, requests for chunks, chunks.
#include <algorithm>
#include <utility>

#include "fabric/ucx/wire.hpp"

namespace outrigger::fabric::ucx {
namespace {

constexpr const char* kMalformed = "sends what is not to be understood";

}  // namespace

ucs_status_t Wire::Inlet::arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous) {
  return wire->arrived(line, header, data, bytes, rendezvous);
}

// Whoever does not know the job's secret is not listened to.
Wire::Link* Wire::known_sender(const wire::Header& header) {
  if (header.secret != secret_ || header.from.value() >= links_.size()) return nullptr;
  return links_[header.from.value()].get();
}

ucs_status_t Wire::arrived(Line line, std::span<const std::byte> bytes, void* data, std::size_t count,
                           bool rendezvous) {
  if (closing_) return UCS_OK;
  const std::optional<wire::Header> header = wire::decode_wire(bytes);
  Link* link = header ? known_sender(*header) : nullptr;
  if (link == nullptr || link->fault != nullptr) return UCS_OK;
  link->met = true;
  link->heard = true;
  return take(line, *link, *header, data, count, rendezvous);
}

void Wire::batch_arrived(Link& link, std::span<const std::byte> batch) {
  while (!batch.empty()) {
    const std::optional<wire::Framed> next = wire::next_framed(batch);
    if (!next || known_sender(next->header) != &link) return break_off(link, kMalformed);
    // A refusal carries no bytes, and whatever carries some is not taken on the control line: nothing is written here.
    auto* data = const_cast<std::byte*>(next->payload.data());
    (void)take(Line::control, link, next->header, data, next->payload.size(), false);
    if (link.fault != nullptr) return;
  }
}

ucs_status_t Wire::take(Line line, Link& link, const wire::Header& header, void* data, std::size_t count,
                        bool rendezvous) {
  const std::span<const std::byte> payload(static_cast<const std::byte*>(data), rendezvous ? 0 : count);
  const bool part = header.kind == wire::Kind::part;
  const bool chunk = header.kind == wire::Kind::data || header.kind == wire::Kind::push || part;
  if (!chunk) {
    rendezvous ? break_off(link, kMalformed) : control_arrived(link, header, payload);
    return UCS_OK;
  }
  const bool refusal = header.kind != wire::Kind::push && header.status != 0 && count == 0;
  if (!refusal && (line != Line::data || count != header.bytes || header.status != 0)) {
    break_off(link, kMalformed);
    return UCS_OK;
  }
  if (part) {
    rendezvous ? break_off(link, kMalformed) : part_arrived(link, header, payload);
    return UCS_OK;
  }
  if (header.kind == wire::Kind::data) {
    Transfer* transfer = transfer_of(link, header, true);
    // Not ours any more, or a chunk that comes twice.
    if (transfer == nullptr || chunk_of(*transfer, header.offset)->state != ChunkState::awaited) return UCS_OK;
  }
  if (!rendezvous) {
    chunk_arrived(link, header, payload);
    return UCS_OK;
  }
  if (header.kind == wire::Kind::data) set_chunk_state(header, ChunkState::offered);
  offers_.push_back(Offer{&link, header, data});
  return UCS_INPROGRESS;
}

void Wire::control_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data) {
  switch (header.kind) {
    case wire::Kind::message:
    case wire::Kind::ahead: return ordered_arrived(link, header, data);
    case wire::Kind::batch: return batch_arrived(link, data);
    case wire::Kind::request:
      if (link.requests >= options_.requests_of_peer) return break_off(link, "asks for more than it may");
      ++link.requests;
      return answer_later(link, header);
    case wire::Kind::stored:
      if (transfer_of(link, header, false) != nullptr) chunk_ended(header, static_cast<MoveStatus>(header.status));
      return;
    case wire::Kind::ping: say(link, this->header(wire::Kind::pong)); return;
    case wire::Kind::bye:
      link.node_lost = header.status != static_cast<std::uint16_t>(MoveStatus::ok);
      if (link.node_lost) return break_off(link, "has lost its host");
      link.departed = true;
      return give_up_moves(link);
    default: return;
  }
}

// UCX keeps the order only where all goes over one rail.
void Wire::ordered_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data) {
  const std::uint64_t number = header.move;
  if (number < link.messages_taken || link.early_messages.size() >= options_.waiting_messages) {
    return break_off(link, kMalformed);
  }
  if (number > link.messages_taken) {
    link.early_messages.try_emplace(number, Ordered{header, {data.begin(), data.end()}});
    return;
  }
  take_ordered(link, Ordered{header, {data.begin(), data.end()}});
  ++link.messages_taken;
  for (auto next = link.early_messages.begin(); next != link.early_messages.end() && next->first == link.messages_taken;
       ++link.messages_taken) {
    take_ordered(link, std::move(next->second));
    next = link.early_messages.erase(next);
  }
}

void Wire::take_ordered(Link& link, Ordered&& ordered) {
  if (ordered.header.kind == wire::Kind::ahead) return notice_arrived(link, ordered);
  inbox_.push_back(Inbound{link.sp, std::move(ordered.payload)});
}

// The transfer of ours that the chunk belongs to; null when there is none such (any more).
Wire::Transfer* Wire::transfer_of(const Link& link, const wire::Header& header, bool pulls) {
  const auto found = transfers_.find(header.move);
  if (found == transfers_.end()) return nullptr;
  Transfer& transfer = found->second;
  if (transfer.pulls != pulls || transfer.link != &link || chunk_of(transfer, header.offset) == nullptr ||
      header.bytes != chunk_at(transfer, header.offset)) {
    return nullptr;
  }
  return &transfer;
}

Wire::Chunk* Wire::chunk_of(Transfer& transfer, std::uint64_t offset) {
  const auto found = std::ranges::find(transfer.open_chunks, offset, &Chunk::offset);
  return found == transfer.open_chunks.end() ? nullptr : &*found;
}

void Wire::set_chunk_state(const wire::Header& header, ChunkState state) {
  const auto found = transfers_.find(header.move);
  if (found == transfers_.end()) return;
  if (Chunk* chunk = chunk_of(found->second, header.offset)) chunk->state = state;
}

// A chunk that is here as a whole, or a data message that says why there is none.
void Wire::chunk_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data) {
  if (header.kind == wire::Kind::data && header.status != 0) {
    return chunk_ended(header, static_cast<MoveStatus>(header.status));
  }
  MoveStatus status = MoveStatus::owner_lost;
  if (memory_.is_remote()) {
    MemoryRef to = header.memory;
    if (header.kind == wire::Kind::data) {
      const Transfer& transfer = transfers_.at(header.move);
      if (transfer.completion == nullptr) return chunk_placed(link, header, status);
      to = local_part(transfer, header.offset);
    }
    // The bytes are UCX's during this call only.
    auto kept = std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
    return place_elsewhere(link, header, to, *kept, kept);
  }
  if (header.kind == wire::Kind::push) {
    status = memory_.write(header.memory, data);
  } else if (const Transfer& transfer = transfers_.at(header.move); transfer.completion != nullptr) {
    status = memory_.write(local_part(transfer, header.offset), data);
  }
  chunk_placed(link, header, status);
}

void Wire::chunk_placed(Link& link, const wire::Header& header, MoveStatus status) {
  moved_bytes_ += header.bytes;
  if (header.kind == wire::Kind::data) return chunk_ended(header, status);
  wire::Header answer = this->header(wire::Kind::stored);
  answer.move = header.move;
  answer.offset = header.offset;
  answer.bytes = header.bytes;
  answer.status = static_cast<std::uint16_t>(status);
  say(link, answer);
}

bool Wire::accept_offers() {
  bool any = false;
  for (std::size_t left = offers_.size(); left > 0; --left) {
    const Offer offer = offers_.front();
    offers_.pop_front();
    if (accept(offer)) {
      any = true;
    } else {
      offers_.push_back(offer);
    }
  }
  return any;
}

// False: no buffer now.
bool Wire::accept(const Offer& offer) {
  MemoryRef to = offer.header.memory;
  if (offer.header.kind == wire::Kind::data) {
    const Transfer* transfer = transfer_of(*offer.link, offer.header, true);
    if (transfer == nullptr || transfer->completion == nullptr) {
      ucp_am_data_release(data_->get(), offer.descriptor);
      chunk_ended(offer.header, MoveStatus::owner_lost);
      return true;
    }
    to = local_part(*transfer, offer.header.offset);
  }
  NodeMemory::View view = memory_.view(to, offer.header.bytes);
  if (view.status != MoveStatus::ok) {
    ucp_am_data_release(data_->get(), offer.descriptor);
    chunk_placed(*offer.link, offer.header, view.status);
    return true;
  }
  StagingBuffer staging;
  if (view.bytes == nullptr) {
    staging = receive_staging_.take();
    if (!staging.valid()) return false;
    view.bytes = staging.data();
  }
  auto receipt = std::make_unique<Receipt>();
  receipt->link = offer.link;
  receipt->header = offer.header;
  receipt->header.memory = to;
  receipt->hold = std::move(view.hold);
  receipt->staging = std::move(staging);
  receipt->wire = this;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv_am = on_received;
  parameters.user_data = receipt.get();
  Receipt* key = receipt.get();
  if (offer.header.kind == wire::Kind::data && !receipt->staging.valid()) {
    set_chunk_state(offer.header, ChunkState::landing);
  }
  receipts_.emplace(key, std::move(receipt));
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(data_->get(), offer.descriptor, view.bytes, offer.header.bytes, &parameters);
  if (!UCS_PTR_IS_PTR(request)) chunk_received(*key, UCS_PTR_STATUS(request));
  return true;
}

void Wire::on_received(void* request, ucs_status_t status, std::size_t /*bytes*/, void* receipt) {
  auto* done = static_cast<Receipt*>(receipt);
  done->wire->chunk_received(*done, status);
  ucp_request_free(request);
}

void Wire::chunk_received(Receipt& receipt, ucs_status_t status) {
  const std::unique_ptr<Receipt> done = std::move(receipts_.extract(&receipt).mapped());
  if (closing_) return;
  Link& link = *done->link;
  const wire::Header& header = done->header;
  if (status != UCS_OK) {
    // No fault of the memory: the chunk stays under way until tick() has seen what became of the peer.
    link.broken = true;
    if (header.kind == wire::Kind::data) set_chunk_state(header, ChunkState::offered);
    if (link.departed) give_up_moves(link);
    return;
  }
  MoveStatus outcome = MoveStatus::ok;
  if (done->staging.valid()) {
    const bool ours = header.kind == wire::Kind::data;
    const Transfer* transfer = ours ? transfer_of(link, header, true) : nullptr;
    if (ours && (transfer == nullptr || transfer->completion == nullptr)) {
      outcome = MoveStatus::owner_lost;  // cancelled meanwhile
    } else if (memory_.is_remote()) {
      auto kept = std::make_shared<StagingBuffer>(std::move(done->staging));
      const std::span<const std::byte> bytes(kept->data(), header.bytes);
      return place_elsewhere(link, header, header.memory, bytes, kept);
    } else {
      outcome = memory_.write(header.memory, std::span(done->staging.data(), header.bytes));
    }
  }
  chunk_placed(link, header, outcome);
}

void Wire::answer_later(Link& link, const wire::Header& request) {
  link.to_send.push_back(request);
  if (!std::exchange(link.in_sending_turn, true)) sending_turns_.push_back(&link);
}

// A chunk for each peer in turn. What the network has taken leaves in the order in which it came: whole blocks one
// after the other would keep this node's link busy with one peer, whose own link others fill meanwhile, and the rest
// idle.
bool Wire::answer_requests() {
  bool any = false;
  while (!sending_turns_.empty()) {
    Link& link = *sending_turns_.front();
    if (!link.to_send.empty()) {
      const wire::Header& request = link.to_send.front();
      if (!answer(link, request)) return any;
      if (request.kind == wire::Kind::request) --link.requests;
      link.to_send.pop_front();
      any = true;
    }
    sending_turns_.pop_front();
    link.in_sending_turn = !link.to_send.empty();
    if (link.in_sending_turn) sending_turns_.push_back(&link);
  }
  return any;
}

// False: no buffer now.
bool Wire::answer(Link& link, const wire::Header& request) {
  wire::Header data = header(request.kind == wire::Kind::part ? wire::Kind::part : wire::Kind::data);
  data.move = request.move;
  data.offset = request.offset;
  data.bytes = request.bytes;
  NodeMemory::View view = memory_.view(request.memory, data.bytes);
  StagingBuffer staging;
  if (view.status == MoveStatus::ok && view.bytes == nullptr) {
    staging = send_staging_.take();
    if (!staging.valid()) return false;
    if (memory_.is_remote()) {
      fetch_and_send(link, data, request.memory, std::move(staging), false);
      return true;
    }
    view.status = memory_.read(request.memory, std::span(staging.data(), data.bytes));
    view.bytes = staging.data();
  }
  if (view.status != MoveStatus::ok) {
    data.status = static_cast<std::uint16_t>(view.status);
    say(link, data);
    return true;
  }
  send_chunk(link, data, view.bytes, std::move(view.hold), std::move(staging));
  return true;
}

bool Wire::receive(SpId& from, std::vector<std::byte>& message) {
  if (inbox_.empty()) return false;
  from = inbox_.front().from;
  message = std::move(inbox_.front().message);
  inbox_.pop_front();
  return true;
}

}  // namespace outrigger::fabric::ucx
