// The wire: moves and messages between the service processes of different nodes, over UCX.
//
//   pull  destination's side               source's side          push  source's side             destination's side
//         request {chunk} ---------------->                             data {chunk} -------------->
//         <--------------- data {chunk}                                 <-------------- stored {chunk}
//
//   eager, for the first bytes of blocks that the other side will pull: source's side    destination's side
//                                                                         notice ------->
//                                                                         chunk ... ---->
//
// Output: Transfers, RequestServer and EagerSender send by ChunkSender and Channels to the Network. Input: the Network
// calls Receiver, which passes chunks to ChunkReceiver and EagerReceiver, and requests to RequestServer. Chunks for
// ranks go into their memory; chunks to be reduced go into buffers of StagedMemory. While one chunk is copied, others
// are in flight.
//
// Connections are made when first needed, and begin with a handshake (proof/handshake.hpp). failure() reports a peer
// that has disconnected or does not respond. Traffic with other peers goes on.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/port.hpp"
#include "fabric/ucx/channels.hpp"
#include "fabric/ucx/chunk_receiver.hpp"
#include "fabric/ucx/chunk_sender.hpp"
#include "fabric/ucx/eager.hpp"
#include "fabric/ucx/liveness.hpp"
#include "fabric/ucx/pace.hpp"
#include "fabric/ucx/receiver.hpp"
#include "fabric/ucx/replacements.hpp"
#include "fabric/ucx/request_server.hpp"
#include "fabric/ucx/staged_memory.hpp"
#include "fabric/ucx/transfers.hpp"
#include "fabric/ucx/wire_options.hpp"
#include "protocol/shared/wire_route.hpp"
#include "protocol/wire/job_map.hpp"

namespace outrigger::fabric::ucx {

class Wire final : public Port {
 public:
  // Opens the network. `memory` must outlive the wire.
  [[nodiscard]] static Result<std::unique_ptr<Wire>> open(WireOptions options, NodeMemory& memory);
  ~Wire();

  // For peers, in the job map.
  [[nodiscard]] std::vector<std::byte> address() const { return network_.address(); }
  // Names the peers; call it once, before anything below. `dpu_secret`: of the job's DPUs; zeros: none. `epoch`: this
  // service process's. Error: an invalid address.
  [[nodiscard]] Status introduce(const JobMap& job_map, SpId self, const Secret& dpu_secret = {},
                                 Epoch epoch = Epoch{1});
  // Peers that are replaced by others.
  [[nodiscard]] Replacements& replacements() { return replacements_; }

  // `from` belongs to a rank of `source`, `to` to a rank of this node. See BlockMover::move().
  struct Pulled {
    const BlockId* eager = nullptr;  // the block's name if the source may have sent some of it eagerly
    // Further operands of ranks of `source`, as long as `from`: the source reduces `from` and these in order. At most
    // wire::kMaxOtherOperands; copied.
    const wire::OtherOperands* others = nullptr;
  };
  void pull(SpId source, const Block& from, const Block& to, MoveCompletion& completion, const Pulled& pulled);
  void pull(SpId source, const Block& from, const Block& to, MoveCompletion& completion) {
    pull(source, from, to, completion, Pulled());
  }
  // See BlockMover for these three.
  void forget_eager(const BlockId& id, SpId source);
  void send_eager(const BlockId& id, const Block& from, SpId reader);
  void withdraw_eager(const BlockId& id);
  // `to` belongs to a rank of `destination`, `from` to a rank of this node.
  void push(SpId destination, const Block& from, const Block& to, MoveCompletion& completion);
  // moved() will not be called, and nothing more is written to this node's memory: waits for writes in progress. Reads
  // in flight may continue for a while, so the memory must stay mapped; pushed chunks still arrive.
  void cancel(MoveCompletion& completion) {
    transfers_.cancel(completion);
    replacements_.await_rest();
  }

  // Destinations of pulls: memory of the node's ranks, or of this process.
  [[nodiscard]] StagedMemory& memory() { return memory_; }

  // Ordered per pair.
  void send(SpId to, std::span<const std::byte> message);
  [[nodiscard]] bool receive(SpId& from, std::vector<std::byte>& message) override {
    return receiver_.next_message(from, message);
  }

  // Drives the network and delivers completions.
  bool progress() override;
  [[nodiscard]] std::size_t moves_in_flight() const { return transfers_.size(); }
  // Bytes of chunks: in flight as far as this side knows, and moved so far.
  struct Traffic {
    std::uint64_t under_way_bytes = 0;
    std::uint64_t moved_bytes = 0;
  };
  [[nodiscard]] Traffic traffic() const {
    return {transfers_.window_used_bytes() + channels_.sending_bytes() + peers_.eager_awaited_bytes(),
            channels_.sent_bytes() + chunks_.received_bytes() + eager_in_.received_bytes()};
  }
  [[nodiscard]] bool backlogged() const override { return channels_.backlogged(); }

  void look_after(Clock::time_point now, const Business& business) override {
    liveness_.look_after(now, business, transfers_.size() != 0);
  }
  // Called by look_after() once a second.
  void tick(bool interested) { liveness_.tick(interested); }
  [[nodiscard]] const PortFailure* failure() const override { return peers_.failure(); }

  [[nodiscard]] std::vector<int> descriptors() const override { return network_.event_fds(); }
  // True only after a progress() that did nothing.
  [[nodiscard]] bool arm() override;
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override {
    return liveness_.sleep_limit(now);
  }
  [[nodiscard]] std::chrono::microseconds pause(Clock::time_point now) override {
    const Traffic now_going = traffic();
    return pace_.pause(now, now_going.moved_bytes, now_going.under_way_bytes);
  }

  // Tells all peers in use that this side closes, in order or because its node is lost. Then call progress() until
  // all_sent() or a short timeout: unread input at the close of a connection discards the last output.
  enum class Farewell : std::uint8_t { in_order, node_lost };
  void say_goodbye(Farewell farewell = Farewell::in_order);
  [[nodiscard]] bool all_sent() const { return channels_.all_taken() && network_.flushed() && !channels_.busy(); }

 private:
  Wire(WireOptions options, NodeMemory& memory, Context context);

  WireOptions options_;
  StagedMemory memory_;
  Network network_;
  Peers peers_;
  Channels channels_{options_, network_, peers_};
  ChunkSender sender_;
  Transfers transfers_;
  RequestServer server_{options_, peers_, channels_, sender_};
  EagerSender eager_out_;
  EagerReceiver eager_in_;
  ChunkReceiver chunks_;
  Receiver receiver_{options_, peers_, channels_, transfers_, chunks_, eager_in_, server_};
  Replacements replacements_;
  Liveness liveness_{options_, peers_, channels_};
  Pace pace_;
};

}  // namespace outrigger::fabric::ucx
