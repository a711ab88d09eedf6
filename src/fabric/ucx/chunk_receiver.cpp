#include "fabric/ucx/chunk_receiver.hpp"

#include <cassert>
#include <utility>
#include <vector>

#include "fabric/ucx/staged_memory.hpp"

namespace outrigger::fabric::ucx {
namespace {

// True for a chunk of a local move, false for a push by the peer.
bool is_ours(const wire::Header& header) {
  return header.kind == wire::Kind::data;
}

}  // namespace

std::optional<MemoryRef> ChunkReceiver::place_of(const Peer& peer, const wire::Header& header) {
  if (!is_ours(header)) return header.memory.owner == kOwnMemory ? std::nullopt : std::optional(header.memory);
  const Transfer* transfer = transfers_.find(peer, header, Transfers::Way::pull);
  if (transfer == nullptr || !transfer->is_wanted()) return std::nullopt;
  return transfer->local_at(header.offset);
}

void ChunkReceiver::arrived(Peer& peer, const wire::Header& header, std::span<const std::byte> bytes) {
  if (is_ours(header) && header.status != 0) {
    return transfers_.chunk_ended(header, static_cast<MoveStatus>(header.status));
  }
  const std::optional<MemoryRef> to = place_of(peer, header);
  if (!to) return placed(peer, header, MoveStatus::owner_lost);
  if (!memory_.is_remote(*to)) return placed(peer, header, memory_.write(*to, bytes));
  // UCX owns the bytes only during this call.
  auto kept = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  place_elsewhere(peer, header, *to, *kept, kept);
}

void ChunkReceiver::offered(Peer& peer, const wire::Header& header, void* descriptor) {
  if (is_ours(header)) transfers_.set_chunk_state(header, ChunkState::offered);
  offers_.push_back(Offer{&peer, header, descriptor});
}

bool ChunkReceiver::accept_offers() {
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

// False: no buffer is free.
bool ChunkReceiver::accept(const Offer& offer) {
  const std::optional<MemoryRef> to = place_of(*offer.peer, offer.header);
  if (!to) {
    ucp_am_data_release(network_.data().get(), offer.descriptor);
    transfers_.chunk_ended(offer.header, MoveStatus::owner_lost);
    return true;
  }
  NodeMemory::View view = memory_.view(*to, offer.header.bytes);
  if (view.status != MoveStatus::ok) {
    ucp_am_data_release(network_.data().get(), offer.descriptor);
    placed(*offer.peer, offer.header, view.status);
    return true;
  }
  StagingBuffer staging;
  if (view.bytes == nullptr) {
    staging = staging_.take();
    if (!staging.valid()) return false;
    view.bytes = staging.data();
  }
  auto receipt = std::make_unique<Receipt>();
  receipt->peer = offer.peer;
  receipt->header = offer.header;
  receipt->header.memory = *to;
  receipt->hold = std::move(view.hold);
  receipt->staging = std::move(staging);
  receipt->receiver = this;
  receive(offer, view.bytes, std::move(receipt));
  return true;
}

void ChunkReceiver::receive(const Offer& offer, std::byte* place, std::unique_ptr<Receipt> receipt) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv_am = on_received;
  parameters.user_data = receipt.get();
  Receipt* key = receipt.get();
  if (is_ours(offer.header) && !receipt->staging.valid()) {
    transfers_.set_chunk_state(offer.header, ChunkState::landing);
  }
  receipts_.emplace(key, std::move(receipt));
  ++offer.peer->landing;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(network_.data().get(), offer.descriptor, place, offer.header.bytes, &parameters);
  if (!UCS_PTR_IS_PTR(request)) received(*key, UCS_PTR_STATUS(request));
}

void ChunkReceiver::on_received(void* request, ucs_status_t status, std::size_t /*bytes*/, void* receipt) {
  auto* done = static_cast<Receipt*>(receipt);
  done->receiver->received(*done, status);
  ucp_request_free(request);
}

void ChunkReceiver::received(Receipt& receipt, ucs_status_t status) {
  assert(receipts_.contains(&receipt) && "every receive ends once");
  const std::unique_ptr<Receipt> done = std::move(receipts_.extract(&receipt).mapped());
  if (channels_.closing()) return;
  Peer& peer = *done->peer;
  end_landing(peer);
  const wire::Header& header = done->header;
  if (status != UCS_OK) {
    // The memory is not at fault: the chunk stays in flight until Liveness knows the peer's state.
    peer.broken = true;
    if (is_ours(header)) transfers_.set_chunk_state(header, ChunkState::offered);
    if (peer.departed) transfers_.give_up(peer);
    return;
  }
  if (!done->staging.valid()) return placed(peer, header, MoveStatus::ok);
  if (peer.replaced) return;  // the move continues with the replacement; drop these bytes
  if (!place_of(peer, header)) return placed(peer, header, MoveStatus::owner_lost);  // cancelled meanwhile
  const std::span<const std::byte> bytes(done->staging.data(), header.bytes);
  if (!memory_.is_remote(header.memory)) return placed(peer, header, memory_.write(header.memory, bytes));
  auto kept = std::make_shared<StagingBuffer>(std::move(done->staging));
  place_elsewhere(peer, header, header.memory, bytes, kept);
}

void ChunkReceiver::place_elsewhere(Peer& peer, const wire::Header& header, const MemoryRef& to,
                                    std::span<const std::byte> bytes, std::shared_ptr<const void> hold) {
  if (is_ours(header)) transfers_.set_chunk_state(header, ChunkState::landing);
  ++peer.landing;
  memory_.start_write(to, bytes, [this, &peer, header, hold = std::move(hold)](MoveStatus status) {
    if (channels_.closing()) return;
    channels_.set_busy();
    end_landing(peer);
    placed(peer, header, status);
  });
}

void ChunkReceiver::placed(Peer& peer, const wire::Header& header, MoveStatus status) {
  received_bytes_ += header.bytes;
  if (is_ours(header)) return transfers_.chunk_ended(header, status);
  wire::Header answer = peers_.header(wire::Kind::stored);
  answer.move = header.move;
  answer.offset = header.offset;
  answer.bytes = header.bytes;
  answer.status = static_cast<std::uint16_t>(status);
  channels_.say(peer, answer);
}

void ChunkReceiver::end_landing(Peer& peer) {
  assert(peer.landing != 0 && "every chunk lands once");
  --peer.landing;
  if (peer.replaced) channels_.set_busy();  // a caller may wait for it
}

void ChunkReceiver::forget(const Peer& former) {
  std::erase_if(offers_, [&](const Offer& offer) {
    if (offer.peer != &former) return false;
    ucp_am_data_release(network_.data().get(), offer.descriptor);
    return true;
  });
}

void ChunkReceiver::release_offers() {
  for (const Offer& offer : offers_) ucp_am_data_release(network_.data().get(), offer.descriptor);
  offers_.clear();
}

}  // namespace outrigger::fabric::ucx
