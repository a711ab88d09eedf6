#include "fabric/ucx/wire.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

constexpr int kSettlingTurns = 100;
constexpr int kClosingTurns = 1000;

WireOptions sensible(WireOptions options) {
  options.chunk_bytes = std::clamp<std::uint64_t>(options.chunk_bytes, 4096, wire::kMaxChunkBytes);
  options.copied_chunk_bytes = std::clamp<std::uint64_t>(options.copied_chunk_bytes, 4096, options.chunk_bytes);
  options.peer_window_bytes = std::max(options.peer_window_bytes, options.chunk_bytes);
  options.window_bytes = std::max(options.window_bytes, options.chunk_bytes);
  options.send_buffers = std::max<std::size_t>(options.send_buffers, 1);
  options.receive_buffers = std::max<std::size_t>(options.receive_buffers, 1);
  return options;
}

}  // namespace

Result<std::unique_ptr<Wire>> Wire::open(WireOptions options, NodeMemory& memory) {
  Result<Context> context = Context::open(options.transports);
  if (!context) return Error{context.error()};
  std::unique_ptr<Wire> opened(new Wire(sensible(std::move(options)), memory, std::move(context).value()));
  if (Status workers = opened->network_.open(opened->receiver_.control(), opened->receiver_.data()); !workers) {
    return Error{workers.error()};
  }
  return opened;
}

Wire::Wire(WireOptions options, NodeMemory& memory, Context context)
    : options_(std::move(options)),
      memory_(memory),
      network_(std::move(context)),
      sender_(options_, memory, channels_),
      transfers_(options_, memory_, network_, peers_, channels_, sender_),
      eager_out_(options_, memory, peers_, channels_, server_),
      eager_in_(memory, transfers_),
      chunks_(options_, memory_, network_, peers_, channels_, transfers_),
      replacements_(memory, network_, peers_, channels_, {server_, eager_out_, chunks_, receiver_, transfers_}) {}

// UCX calls back while it closes, so objects that callbacks use are destroyed last. UCX 1.13 aborts if a worker is
// destroyed before its answer to a new connection is sent. Some turns send such answers, unless the peer hangs. Service
// processes end without this destructor.
Wire::~Wire() {
  channels_.begin_closing();
  for (int i = 0; i < kSettlingTurns; ++i) (void)network_.progress();
  chunks_.release_offers();
  peers_.clear();
  // UCX cancels operations in flight in its next turns.
  for (int i = 0; i < kClosingTurns && (!channels_.all_taken() || chunks_.receives()); ++i) (void)network_.progress();
  network_.close();
  channels_.end_closing();
}

Status Wire::introduce(const JobMap& job_map, SpId self, const Secret& dpu_secret, Epoch epoch) {
  return peers_.introduce(job_map, self, epoch, dpu_secret, address(), options_);
}

void Wire::pull(SpId source, const Block& from, const Block& to, MoveCompletion& completion, const Pulled& pulled) {
  Peer& peer = peers_.of(source);
  if (pulled.others != nullptr) return transfers_.begin_reduced(peer, from, *pulled.others, to, completion);
  transfers_.begin(Transfers::Way::pull, peer, from, to, completion, pulled.eager);
}

void Wire::push(SpId destination, const Block& from, const Block& to, MoveCompletion& completion) {
  transfers_.begin(Transfers::Way::push, peers_.of(destination), from, to, completion);
}

void Wire::send_eager(const BlockId& id, const Block& from, SpId reader) {
  eager_out_.send(id, from, peers_.of(reader));
}

void Wire::withdraw_eager(const BlockId& id) {
  eager_out_.withdraw(id);
}

void Wire::forget_eager(const BlockId& id, SpId source) {
  EagerReceiver::forget(peers_.of(source), id);
}

void Wire::send(SpId to, std::span<const std::byte> message) {
  channels_.say_in_order(peers_.of(to), peers_.header(wire::Kind::message), message);
}

// Outgoing data fills the network's queues and delays control messages by milliseconds. So own requests go first, and
// peers' requests are answered a turn later, when the engine has seen the messages that came with them.
bool Wire::progress() {
  bool worked = replacements_.let_go();
  worked |= transfers_.start_chunks();
  server_.join_messages();
  worked |= channels_.flush_outboxes();
  worked |= server_.answer_requests();
  worked |= network_.progress();
  worked |= chunks_.accept_offers();
  worked |= transfers_.deliver();
  worked |= channels_.flush_outboxes();
  channels_.set_busy(worked);
  return worked;
}

// Chunks that wait for a buffer or for room in a window continue after the network's next event.
bool Wire::arm() {
  return !channels_.busy() && !transfers_.anything_to_deliver() && !receiver_.has_messages() && network_.arm();
}

void Wire::say_goodbye(Farewell farewell) {
  wire::Header bye = peers_.header(wire::Kind::bye);
  if (farewell == Farewell::node_lost) bye.status = static_cast<std::uint16_t>(MoveStatus::owner_lost);
  for (const auto& peer : peers_.all()) {
    if (peer != nullptr && peer->is_known()) channels_.say(*peer, bye);
  }
  (void)channels_.flush_outboxes();
  network_.flush();
}

}  // namespace outrigger::fabric::ucx
