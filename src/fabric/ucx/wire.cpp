// Moves: cut into chunks, started by turns, ended.
#include "fabric/ucx/wire.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
// For what is being written to a place that nobody wants it in any more. Its source has said that it is ready.
constexpr std::chrono::seconds kLandingTime{2};
constexpr int kClosingTurns = 1000;

MemoryRef part(MemoryRef memory, std::uint64_t offset) {
  memory.address += offset;
  return memory;
}

}  // namespace

Result<std::unique_ptr<Wire>> Wire::open(WireOptions options, NodeMemory& memory) {
  options.chunk_bytes = std::clamp<std::uint64_t>(options.chunk_bytes, 4096, wire::kMaxChunkBytes);
  options.copied_chunk_bytes = std::clamp<std::uint64_t>(options.copied_chunk_bytes, 4096, options.chunk_bytes);
  options.peer_window_bytes = std::max(options.peer_window_bytes, options.chunk_bytes);
  options.window_bytes = std::max(options.window_bytes, options.chunk_bytes);
  options.send_buffers = std::max<std::size_t>(options.send_buffers, 1);
  options.receive_buffers = std::max<std::size_t>(options.receive_buffers, 1);
  Result<Context> context = Context::open(options.transports);
  if (!context) return Error{context.error()};
  std::unique_ptr<Wire> opened(new Wire(std::move(options), memory, std::move(context).value()));
  for (const Line line : {Line::control, Line::data}) {
    Inlet& inlet = line == Line::control ? opened->control_inlet_ : opened->data_inlet_;
    Result<Worker> worker = Worker::open(opened->context_, inlet);
    if (!worker) return Error{worker.error()};
    (line == Line::control ? opened->control_ : opened->data_).emplace(std::move(worker).value());
  }
  return opened;
}

Wire::Wire(WireOptions options, NodeMemory& memory, Context context)
    : options_(std::move(options)),
      memory_(memory),
      send_staging_(options_.send_buffers, wire::kMaxChunkBytes),  // the peer says how long its chunks are
      receive_staging_(options_.receive_buffers, wire::kMaxChunkBytes),
      context_(std::move(context)) {
  control_inlet_.wire = this;
  data_inlet_.wire = this;
  data_inlet_.line = Line::data;
}

// UCX calls back while it closes endpoints, about peers that may be gone from here already.
Wire::~Wire() {
  closing_ = true;
  for (const Offer& offer : offers_) ucp_am_data_release(data_->get(), offer.descriptor);
  links_.clear();
  // UCX gives up what was under way in its next turns.
  for (int i = 0; i < kClosingTurns && !(sends_.empty() && receipts_.empty()); ++i) {
    (void)control_->progress();
    (void)data_->progress();
  }
}

std::vector<std::byte> Wire::address() const {
  const auto& control = control_->address();
  const auto& data = data_->address();
  const auto length = static_cast<std::uint32_t>(control.size());
  std::vector<std::byte> both(kLengthBytes + control.size() + data.size());
  std::memcpy(both.data(), &length, kLengthBytes);
  std::ranges::copy(data, std::ranges::copy(control, both.begin() + kLengthBytes).out);
  return both;
}

Status Wire::introduce(const JobMap& job_map, SpId self) {
  if (self.value() >= job_map.sp_count || job_map.address_of(self) != address()) {
    return Error{"the job map of nodes does not name this service process"};
  }
  self_ = self;
  secret_ = job_map.secret();
  const std::uint32_t own_node = job_map.node_of(self);
  const std::uint64_t eager_bytes = std::min(options_.eager_bytes_of_peer, options_.eager_bytes / job_map.sp_count);
  links_.resize(job_map.sp_count);
  for (std::uint32_t sp = 0; sp < job_map.sp_count; ++sp) {
    const std::uint32_t node = job_map.node_of(SpId{sp});
    if (node == own_node) continue;
    const std::vector<std::byte>& address = job_map.address_of(SpId{sp});
    std::uint32_t length = 0;
    if (address.size() >= kLengthBytes) std::memcpy(&length, address.data(), kLengthBytes);
    if (length == 0 || length >= address.size() - kLengthBytes) {
      return Error{"service process " + std::to_string(sp) + " on node " + job_map.nodes[node].name +
                   " has no network address"};
    }
    auto link = std::make_unique<Link>();
    link->sp = SpId{sp};
    link->name = job_map.nodes[node].name;
    link->ahead = EagerBlocks(eager_bytes);
    link->eager_room_bytes = eager_bytes;
    const auto data_begin = address.begin() + static_cast<std::ptrdiff_t>(kLengthBytes + length);
    link->control_address.assign(address.begin() + kLengthBytes, data_begin);
    link->data_address.assign(data_begin, address.end());
    links_[sp] = std::move(link);
  }
  return Done{};
}

Wire::Link& Wire::link_of(SpId sp) {
  if (sp.value() >= links_.size() || links_[sp.value()] == nullptr) std::abort();  // not on another node: a bug of ours
  return *links_[sp.value()];
}

void Wire::pull(SpId source, const Block& from, const Block& to, MoveCompletion& completion) {
  begin(true, source, from, to, completion);
}

void Wire::push(SpId destination, const Block& from, const Block& to, MoveCompletion& completion) {
  begin(false, destination, from, to, completion);
}

void Wire::begin(bool pulls, SpId peer, const Block& from, const Block& to, MoveCompletion& completion,
                 const BlockId* block) {
  if (from.bytes == 0 || from.bytes != to.bytes) std::abort();  // against the contract: a bug of ours
  Link& link = link_of(peer);
  busy_ = true;
  if (link.departed) {
    finished_.add(completion, MoveOutcome{MoveStatus::owner_lost, Reach::wire});
    return;
  }
  const std::uint64_t id = next_transfer_++;
  Transfer& transfer = transfers_[id];
  transfer.pulls = pulls;
  transfer.from = from;
  transfer.to = to;
  transfer.link = &link;
  transfer.completion = &completion;
  (void)endpoint(link, Line::data);  // what the network can do is known from then on
  transfer.chunk_bytes = link.moves_memory ? options_.chunk_bytes : options_.copied_chunk_bytes;
  EagerBlock* ahead = block == nullptr ? nullptr : link.ahead.find(*block);
  if (ahead != nullptr && ahead->transfer == 0) {
    take_eager(transfer, id, *ahead);
    if (transfer.status != MoveStatus::ok || transfer.started_bytes == from.bytes) return finish_if_done(id, transfer);
  }
  link.ready.push_back(id);
  if (!std::exchange(link.in_turn, true)) turns_.push_back(&link);
}

void Wire::cancel(MoveCompletion& completion) {
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

// UCX cannot be told to leave off a receive. The source has the bytes ready, so that it takes the time of a few chunks.
void Wire::await_landing(std::uint64_t id) {
  const auto deadline = std::chrono::steady_clock::now() + kLandingTime;
  const auto landing = [](const Chunk& chunk) { return chunk.state == ChunkState::landing; };
  while (true) {
    const auto found = transfers_.find(id);
    if (found == transfers_.end() || std::ranges::none_of(found->second.open_chunks, landing)) return;
    const bool goes_on = memory_.progress_memory();
    if (!data_->progress() && !goes_on && std::chrono::steady_clock::now() > deadline) {
      const Link& link = *found->second.link;
      failure_ = "node " + link.name + " is lost: service process " + std::to_string(link.sp.value()) +
                 " there does not send what it has offered";
      return;
    }
  }
}

std::uint64_t Wire::chunk_at(const Transfer& transfer, std::uint64_t offset) {
  return std::min(transfer.chunk_bytes, transfer.from.bytes - offset);
}

MemoryRef Wire::local_part(const Transfer& transfer, std::uint64_t offset) {
  return part(transfer.pulls ? transfer.to.memory : transfer.from.memory, offset);
}

std::uint64_t Wire::charge_of(const Transfer& transfer, std::uint64_t offset) const {
  return std::max(chunk_at(transfer, offset), kLeastCharge);
}

// Data that goes out fills the network's queues, where control waits behind it for milliseconds. So what this side asks
// for goes first, and others' requests are answered a turn later: by then the engine has seen the messages that came
// with them.
bool Wire::progress() {
  bool worked = start_chunks();
  worked |= flush_outboxes();
  worked |= answer_requests();
  worked |= control_->progress();
  worked |= data_->progress();
  worked |= accept_offers();
  worked |= finished_.deliver();
  worked |= flush_outboxes();
  busy_ = worked;
  return worked;
}

bool Wire::anything_waits() const {
  // What waits for a buffer or for room in a window goes on when the network has done something.
  return busy_ || !finished_.empty() || !inbox_.empty();
}

bool Wire::start_chunks() {
  bool any = false;
  std::size_t stuck = 0;
  while (!turns_.empty() && stuck < turns_.size() && window_used_bytes_ < options_.window_bytes) {
    Link& link = *turns_.front();
    turns_.pop_front();
    if (start_chunk(link)) {
      any = true;
      stuck = 0;
    } else {
      ++stuck;
    }
    link.in_turn = !link.ready.empty();
    if (link.in_turn) turns_.push_back(&link);
  }
  return any;
}

// One chunk of the link's next transfer. False: not now.
bool Wire::start_chunk(Link& link) {
  if (link.ready.empty()) return false;
  const std::uint64_t id = link.ready.front();
  const auto found = transfers_.find(id);
  if (found == transfers_.end() || found->second.status != MoveStatus::ok) {
    link.ready.pop_front();
    return true;
  }
  Transfer& transfer = found->second;
  const std::uint64_t offset = transfer.started_bytes;
  const std::uint64_t bytes = chunk_at(transfer, offset);
  const std::uint64_t charge = charge_of(transfer, offset);
  if (link.window_used_bytes != 0 && link.window_used_bytes + charge > options_.peer_window_bytes) return false;
  wire::Header chunk = header(transfer.pulls ? wire::Kind::request : wire::Kind::push);
  chunk.move = id;
  chunk.offset = offset;
  chunk.bytes = bytes;
  chunk.memory = part(transfer.pulls ? transfer.from.memory : transfer.to.memory, offset);
  NodeMemory::View view;
  StagingBuffer staging;
  if (!transfer.pulls) {
    const MemoryRef local = local_part(transfer, offset);
    view = memory_.view(local, bytes);
    if (view.status == MoveStatus::ok && view.bytes == nullptr) {
      staging = send_staging_.take();
      if (!staging.valid()) return false;
      if (!memory_.is_remote()) view.status = memory_.read(local, std::span(staging.data(), bytes));
      view.bytes = staging.data();
    }
  }
  link.ready.pop_front();
  if (view.status != MoveStatus::ok) {
    transfer.status = view.status;
    finish_if_done(id, transfer);
    return true;
  }
  transfer.started_bytes += bytes;
  transfer.open_chunks.push_back(Chunk{offset, ChunkState::awaited});
  link.window_used_bytes += charge;
  window_used_bytes_ += charge;
  if (transfer.started_bytes < transfer.from.bytes) link.ready.push_back(id);
  if (transfer.pulls) {
    say(link, chunk);
  } else if (staging.valid() && memory_.is_remote()) {
    fetch_and_send(link, chunk, local_part(transfer, offset), std::move(staging), true);
  } else {
    send_chunk(link, chunk, view.bytes, std::move(view.hold), std::move(staging));
  }
  return true;
}

// A transfer of ours has a chunk less under way. A peer that ends one twice is not believed the second time.
void Wire::chunk_ended(const wire::Header& chunk, MoveStatus status) {
  const auto found = transfers_.find(chunk.move);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  const auto open = std::ranges::find(transfer.open_chunks, chunk.offset, &Chunk::offset);
  if (open == transfer.open_chunks.end()) return;
  close_chunk(transfer, static_cast<std::size_t>(open - transfer.open_chunks.begin()));
  if (transfer.status == MoveStatus::ok) transfer.status = status;
  finish_if_done(chunk.move, transfer);
}

void Wire::close_chunk(Transfer& transfer, std::size_t index) {
  const std::uint64_t charge = charge_of(transfer, transfer.open_chunks[index].offset);
  transfer.link->window_used_bytes -= charge;
  window_used_bytes_ -= charge;
  transfer.open_chunks.erase(transfer.open_chunks.begin() + static_cast<std::ptrdiff_t>(index));
}

// Moves with a peer that has left end as soon as nothing of them is being written.
void Wire::give_up_moves(const Link& link) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.link == &link) ids.push_back(id);
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

// What comes ahead of a move that has failed is thrown away.
void Wire::finish_if_done(std::uint64_t id, Transfer& transfer) {
  if (!transfer.open_chunks.empty()) return;
  const bool all_came = transfer.started_bytes == transfer.from.bytes && transfer.ahead == 0;
  if (transfer.status == MoveStatus::ok && !all_came) return;
  if (transfer.ahead != 0) give_up_eager(*transfer.link, transfer.ahead);
  if (transfer.completion != nullptr) {
    finished_.add(*transfer.completion, MoveOutcome{transfer.status, Reach::wire});
  }
  transfers_.erase(id);
}

void Wire::break_off(Link& link, const char* fault) {
  if (link.fault == nullptr) link.fault = fault;
  link.broken = true;
}

void Wire::tick(bool interested) {
  for (const auto& link : links_) {
    if (link == nullptr || link->departed || !(link->met || link->control || link->data)) continue;
    const bool heard =
        std::exchange(link->heard, false) && !link->broken;  // a broken one may be heard on one line still
    // Silence may be the end of a job that others go on with; this is certain, and ranks there may be waited for by
    // other means than ours.
    if (heard || (!interested && !link->node_lost)) {
      link->silent_turns = 0;
      continue;
    }
    ++link->silent_turns;
    const bool gone = link->node_lost || (link->broken && link->silent_turns >= 2);  // a farewell may be on the way
    if (gone || link->silent_turns >= options_.turns_until_lost) {
      const char* how = link->broken ? "has broken off the connection" : "does not answer";
      failure_ = "node " + link->name + " is lost: service process " + std::to_string(link->sp.value()) + " there " +
                 (link->fault != nullptr ? link->fault : how);
      return;
    }
    if (link->silent_turns >= options_.turns_until_ping) say(*link, header(wire::Kind::ping));
  }
}

}  // namespace outrigger::fabric::ucx
