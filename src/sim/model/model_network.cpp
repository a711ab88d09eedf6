#include "sim/model/model_network.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace outrigger::sim::model {
namespace {

std::uint64_t service_ns(const PortModel& port, std::uint64_t bytes, bool first) {
  const double bytes_ns = static_cast<double>(bytes) / port.bytes_per_s * 1e9;
  return static_cast<std::uint64_t>(std::llround(bytes_ns)) + (first ? port.message_ns : 0);
}

template <class Item>
std::uint32_t take_free(std::vector<Item>& items, std::vector<std::uint32_t>& free) {
  if (free.empty()) {
    items.emplace_back();
    return static_cast<std::uint32_t>(items.size() - 1);
  }
  const std::uint32_t index = free.back();
  free.pop_back();
  return index;
}

}  // namespace

void Route::add(PortId port) {
  assert(count_ < kMostPorts && "no route is as long");
  ports_[count_++] = port;
}

PortId Network::add_port(const PortModel& model) {
  assert(model.bytes_per_s > 0);
  ports_.emplace_back();
  ports_.back().model = model;
  return static_cast<PortId>(ports_.size() - 1);
}

void Network::send(const Route& route, std::uint64_t bytes, Receiver& receiver) {
  assert(bytes != 0 && !route.empty());
  const TransferId id = take_free(transfers_, free_transfers_);
  Transfer& transfer = transfers_[id];
  transfer = Transfer();
  transfer.route = route;
  transfer.bytes = bytes;
  transfer.receiver = &receiver;
  enter_next_chunk(id);
}

std::uint64_t Network::control_ns(const Route& route, std::uint64_t bytes) const {
  std::uint64_t latencies_ns = 0;
  std::uint64_t slowest_ns = 0;
  for (const PortId port : route) {
    latencies_ns += ports_[port].model.latency_ns;
    slowest_ns = std::max(slowest_ns, service_ns(ports_[port].model, bytes, true));
  }
  return latencies_ns + slowest_ns;
}

Network::ChunkId Network::make_chunk(TransferId transfer, std::uint32_t bytes) {
  const ChunkId id = take_free(chunks_, free_chunks_);
  chunks_[id] = Chunk{transfer, 0, bytes, transfers_[transfer].sent_bytes == 0, time_.now_ns()};
  return id;
}

void Network::enter_next_chunk(TransferId id) {
  Transfer& transfer = transfers_[id];
  const auto bytes = static_cast<std::uint32_t>(std::min(chunk_bytes_, transfer.bytes - transfer.sent_bytes));
  const ChunkId chunk = make_chunk(id, bytes);
  transfer.sent_bytes += bytes;
  ports_[transfer.route[0]].queued_bytes += bytes;  // a source is not limited: its data are in memory
  arrive(chunk);
}

void Network::arrive(ChunkId id) {
  const Chunk& chunk = chunks_[id];
  const PortId port = transfers_[chunk.transfer].route[chunk.hop];
  ports_[port].most_queued_bytes = std::max(ports_[port].most_queued_bytes, ports_[port].queued_bytes);
  ports_[port].queue.push_back(id);
  serve(port);
}

// Removes bytes that have been served by now.
void Network::settle(Port& port) {
  if (port.serving_bytes == 0 || time_.now_ns() < port.free_ns) return;
  port.queued_bytes -= port.serving_bytes;
  port.serving_bytes = 0;
}

bool Network::has_room(PortId id, std::uint64_t bytes) {
  Port& port = ports_[id];
  settle(port);
  const std::uint64_t limit = port.model.queue_bytes;
  return limit == 0 || port.queued_bytes == 0 || port.queued_bytes + bytes <= limit;
}

// No transfer overtakes those that wait for room.
bool Network::may_enter(PortId id, std::uint64_t bytes, Turn turn) {
  return has_room(id, bytes) && (turn == Turn::has_come || ports_[id].waiting.empty());
}

void Network::serve(PortId id, Turn turn) {
  Port& port = ports_[id];
  settle(port);
  if (port.blocked || port.queue.empty()) return;
  if (port.serving_bytes != 0) return look_later(id);
  const ChunkId chunk = port.queue.front();
  const Transfer& transfer = transfers_[chunks_[chunk].transfer];
  const std::uint32_t next = chunks_[chunk].hop + 1;
  if (next < transfer.route.size() && !may_enter(transfer.route[next], chunks_[chunk].bytes, turn)) {
    port.blocked = true;
    Port& full = ports_[transfer.route[next]];
    full.waiting.push_back(id);
    // A port that serves nothing has chunks on their way or waits itself: it looks when it begins to serve.
    if (full.serving_bytes != 0) look_later(transfer.route[next]);
    return;
  }
  port.queue.pop_front();
  start(id, chunk);
}

void Network::start(PortId id, ChunkId chunk_id) {
  Port& port = ports_[id];
  Chunk& chunk = chunks_[chunk_id];
  const TransferId transfer_id = chunk.transfer;
  const Transfer& transfer = transfers_[transfer_id];
  const std::uint64_t now_ns = time_.now_ns();
  const std::uint64_t needed_ns = service_ns(port.model, chunk.bytes, chunk.first);
  const auto signed_now_ns = static_cast<std::int64_t>(now_ns);
  const auto burst_ns = static_cast<std::int64_t>(service_ns(port.model, port.model.burst_bytes, false));
  port.used_until_ns = std::max(port.used_until_ns, signed_now_ns - burst_ns) + static_cast<std::int64_t>(needed_ns);
  port.free_ns = std::max(static_cast<std::uint64_t>(std::max(signed_now_ns, port.used_until_ns)), chunk.tail_ns);
  port.busy_ns += needed_ns;
  port.serving_bytes = chunk.bytes;
  chunk.tail_ns = port.free_ns + port.model.latency_ns;
  const bool was_first_port = chunk.hop == 0;
  if (++chunk.hop < transfer.route.size()) {
    ports_[transfer.route[chunk.hop]].queued_bytes += chunk.bytes;
    time_.after(port.model.latency_ns, [this, chunk_id] { arrive(chunk_id); });
  } else {
    time_.at(chunk.tail_ns, [this, chunk_id] { deliver(chunk_id); });
  }
  if (was_first_port && transfer.sent_bytes < transfer.bytes) enter_next_chunk(transfer_id);
  if (!port.queue.empty() || !port.waiting.empty()) look_later(id);
}

void Network::look_later(PortId id) {
  Port& port = ports_[id];
  if (port.look_scheduled) return;
  port.look_scheduled = true;
  time_.at(port.free_ns, [this, id] {
    Port& freed = ports_[id];
    freed.look_scheduled = false;
    settle(freed);
    serve(id);
    // Chunks that wait for room here continue in the order of arrival.
    while (!freed.waiting.empty() && has_room(id, chunks_[ports_[freed.waiting.front()].queue.front()].bytes)) {
      const PortId waiter = freed.waiting.front();
      freed.waiting.pop_front();
      ports_[waiter].blocked = false;
      serve(waiter, Turn::has_come);
    }
    if (!freed.waiting.empty() && freed.serving_bytes != 0) look_later(id);
  });
}

void Network::deliver(ChunkId id) {
  const Chunk chunk = chunks_[id];
  free_chunks_.push_back(id);
  Transfer& transfer = transfers_[chunk.transfer];
  transfer.arrived_bytes += chunk.bytes;
  Receiver& receiver = *transfer.receiver;
  const bool last = transfer.arrived_bytes == transfer.bytes;
  if (last) free_transfers_.push_back(chunk.transfer);
  receiver.chunk_arrived(chunk.bytes, last);
}

}  // namespace outrigger::sim::model
