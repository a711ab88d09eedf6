// What goes out: control messages and chunks.
#include <algorithm>
#include <utility>

#include "fabric/ucx/wire.hpp"

namespace outrigger::fabric::ucx {
namespace {

// UCX puts together what is longer from pieces.
constexpr std::size_t kBatchBytes = 6000;

}  // namespace

wire::Header Wire::header(wire::Kind kind) const {
  wire::Header header;
  header.kind = kind;
  header.from = self_;
  header.secret = secret_;
  return header;
}

void Wire::send(SpId to, std::span<const std::byte> message) {
  Link& link = link_of(to);
  wire::Header numbered = header(wire::Kind::message);
  numbered.move = link.messages_sent++;
  say(link, numbered, message);
}

void Wire::say(Link& link, const wire::Header& header, std::span<const std::byte> payload) {
  if (link.broken || link.departed) return;
  if (!link.outbox.empty() && link.outbox.size() + wire::kFrameBytes + payload.size() > kBatchBytes) flush_outbox(link);
  if (link.outbox.empty()) speaking_.push_back(&link);
  wire::append_framed(link.outbox, wire::encode_wire(header), payload);
  ++link.outbox_messages;
  busy_ = true;
}

bool Wire::flush_outboxes() {
  if (speaking_.empty()) return false;
  for (Link* link : std::exchange(speaking_, {})) flush_outbox(*link);
  return true;
}

// Each call of the network costs more than what it carries here: several messages go as one.
void Wire::flush_outbox(Link& link) {
  if (link.outbox.empty()) return;
  auto send = std::make_unique<Send>();
  send->payload = std::exchange(link.outbox, {});
  const std::size_t messages = std::exchange(link.outbox_messages, 0);
  std::span<const std::byte> bytes(send->payload);
  if (messages == 1) {
    std::ranges::copy(bytes.subspan(wire::kFrameBytes - wire::kHeaderBytes, wire::kHeaderBytes), send->header.begin());
    bytes = bytes.subspan(wire::kFrameBytes);
  } else {
    send->header = wire::encode_wire(header(wire::Kind::batch));
  }
  hand_over(link, std::move(send), bytes.data(), bytes.size(), UCP_AM_SEND_FLAG_EAGER);
}

void Wire::send_chunk(Link& link, const wire::Header& header, const std::byte* bytes, std::shared_ptr<const void> hold,
                      StagingBuffer staging) {
  auto send = std::make_unique<Send>();
  send->header = wire::encode_wire(header);
  send->hold = std::move(hold);
  send->staging = std::move(staging);
  send->line = Line::data;
  send->chunk_bytes = header.bytes;
  const bool at_once = header.bytes <= (link.moves_memory ? options_.rendezvous_above_bytes : options_.copied_chunk_bytes);
  hand_over(link, std::move(send), bytes, header.bytes, at_once ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV);
}

void Wire::fetch_and_send(Link& link, const wire::Header& header, const MemoryRef& from, StagingBuffer staging,
                          bool pushes) {
  auto held = std::make_shared<StagingBuffer>(std::move(staging));
  const std::span<std::byte> bytes(held->data(), header.bytes);
  memory_.start_read(from, bytes, [this, &link, header, held, pushes](MoveStatus status) {
    if (closing_) return;
    busy_ = true;
    if (status == MoveStatus::ok) {
      const std::byte* read = held->data();
      return send_chunk(link, header, read, nullptr, std::move(*held));
    }
    if (pushes) return chunk_ended(header, status);
    wire::Header refusal = header;
    refusal.status = static_cast<std::uint16_t>(status);
    say(link, refusal);
  });
}

void Wire::place_elsewhere(Link& link, const wire::Header& header, const MemoryRef& to,
                           std::span<const std::byte> bytes, std::shared_ptr<const void> hold) {
  if (header.kind == wire::Kind::data) set_chunk_state(header, ChunkState::landing);
  memory_.start_write(to, bytes, [this, &link, header, hold = std::move(hold)](MoveStatus status) {
    if (closing_) return;
    busy_ = true;
    chunk_placed(link, header, status);
  });
}

ucp_ep_h Wire::endpoint(Link& link, Line line) {
  std::optional<Endpoint>& endpoint = line == Line::control ? link.control : link.data;
  if (!endpoint) {
    const auto& address = line == Line::control ? link.control_address : link.data_address;
    Result<Endpoint> opened = Endpoint::open(line == Line::control ? *control_ : *data_, address, link.broken);
    if (!opened) {
      link.broken = true;
      failure_ = "node " + link.name + ": " + opened.error();
      return nullptr;
    }
    endpoint.emplace(std::move(opened).value());
    if (line == Line::data) note_route(link, endpoint->lanes());
  }
  return endpoint->get();
}

void Wire::note_route(Link& link, const Lanes& lanes) {
  link.moves_memory = options_.moves_memory.value_or(!lanes.memory.empty());
  const WireRoute route = route_over(lanes);
  if (std::ranges::find(routes_, route) == routes_.end()) routes_.push_back(route);
}

// What is for a peer that has gone is dropped: tick() sees to the rest.
void Wire::hand_over(Link& link, std::unique_ptr<Send> send, const std::byte* bytes, std::size_t count,
                     unsigned flags) {
  if (link.broken || link.departed) return;
  const ucp_ep_h to = endpoint(link, send->line);
  if (to == nullptr) return;
  busy_ = true;
  send->link = &link;
  send->wire = this;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = flags;
  parameters.cb.send = on_sent;
  parameters.user_data = send.get();
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(to, kMessageId, send->header.data(), send->header.size(), bytes, count, &parameters);
  if (UCS_PTR_IS_ERR(request)) link.broken = true;
  if (!UCS_PTR_IS_PTR(request)) {  // gone already
    moved_bytes_ += send->chunk_bytes;
    return;
  }
  sending_bytes_ += send->chunk_bytes;
  if (send->line == Line::control) ++control_sends_;
  Send* key = send.get();
  sends_.emplace(key, std::move(send));
}

void Wire::on_sent(void* request, ucs_status_t status, void* send) {
  auto* done = static_cast<Send*>(send);
  if (status != UCS_OK && !done->wire->closing_) done->link->broken = true;
  done->wire->sent(done);
  ucp_request_free(request);
}

void Wire::sent(Send* send) {
  if (send->line == Line::control) --control_sends_;
  sending_bytes_ -= send->chunk_bytes;
  moved_bytes_ += send->chunk_bytes;
  sends_.erase(send);
}

void Wire::say_goodbye(Farewell farewell) {
  wire::Header bye = header(wire::Kind::bye);
  if (farewell == Farewell::node_lost) bye.status = static_cast<std::uint16_t>(MoveStatus::owner_lost);
  for (const auto& link : links_) {
    if (link != nullptr && (link->met || link->control || link->data)) say(*link, bye);
  }
  (void)flush_outboxes();
  // What UCX has taken may still lie in its own buffers.
  for (const Worker* worker : {&*control_, &*data_}) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.send = on_flushed;
    parameters.user_data = this;
    if (UCS_PTR_IS_PTR(ucp_worker_flush_nbx(worker->get(), &parameters))) ++flushes_;
  }
}

void Wire::on_flushed(void* request, ucs_status_t /*status*/, void* wire) {
  --static_cast<Wire*>(wire)->flushes_;
  ucp_request_free(request);
}

}  // namespace outrigger::fabric::ucx
