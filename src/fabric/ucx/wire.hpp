// The wire: what the service processes of one node exchange with those of others, over UCX.
//
// Two connections a pair of service processes, so that control never queues behind data:
//
//   control   engine messages, requests for chunks, acknowledgements, signs of life     always eager
//   data      chunks. Where the network moves memory by itself, by rendezvous: straight into the destination where
//             that is mapped. Where processors copy (TCP), each as one message: rendezvous halves the rate there
//
//   pull  destination's side               source's side          push  source's side             destination's side
//         request {chunk} ---------------->                             data {chunk} -------------->
//         <--------------- data {chunk}                                 <-------------- stored {chunk}
//
//   ahead, for the first bytes of blocks that the other side will pull: source's side    destination's side
//                                                                       notice ------->
//                                                                       part ... ----->
//
// The way there and back that a request takes is saved where a peer has room for what it has not asked for: a fixed
// number of bytes, taken up until the block is withdrawn. Where the network moves memory, only few bytes are sent so.
//
// Moves are cut into chunks. What has been asked for or sent, and is not here or stored, is bounded per peer and in
// all; peers and moves take turns by chunks. UCX reads and writes mapped memory of ranks itself; private memory is
// staged in a fixed number of buffers. While one chunk is copied the others are on their way.
//
// Connections are made when first needed. A peer that has broken off or gives no sign of life is reported by failure();
// whoever has no business with it need not care.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/eager.hpp"
#include "fabric/ucx/route.hpp"
#include "fabric/ucx/staging.hpp"
#include "fabric/ucx/worker.hpp"
#include "protocol/job_map.hpp"
#include "protocol/wire_messages.hpp"
#include "protocol/wire_route.hpp"

namespace outrigger::fabric::ucx {

struct WireOptions {
  std::string transports;                          // as UCX_TLS; empty: all but shared memory
  std::uint64_t chunk_bytes = 256U << 10;          // where the network moves memory; at most wire::kMaxChunkBytes
  std::uint64_t copied_chunk_bytes = 60U << 10;    // where processors do: a chunk is one message, and not put together
  std::uint64_t rendezvous_above_bytes = 8U << 10; // longer chunks go by rendezvous where the network moves memory
  std::optional<bool> moves_memory;                // the network; empty: as UCX says
  std::uint64_t peer_window_bytes = 1U << 20;      // under way with one peer; beyond it moves wait
  std::uint64_t window_bytes = 8U << 20;           // under way with all peers; beyond it moves wait
  std::uint64_t eager_bytes_of_peer = 256U << 10;  // sent before they are asked for; beyond it blocks wait to be
  std::uint64_t eager_bytes = 16U << 20;           // of all peers together
  std::size_t send_buffers = 16;                   // staging; beyond it chunks from private memory wait
  std::size_t receive_buffers = 16;                // staging; beyond it chunks for private memory wait at their source
  std::size_t waiting_messages = 16384;            // not yet taken by the network; beyond it backlogged()
  std::size_t requests_of_peer = 65536;            // not yet answered; beyond it the peer is broken
  std::uint32_t turns_until_ping = 1;              // of tick(), without a sign of life, before one is asked for
  std::uint32_t turns_until_lost = 5;              // before the peer counts as lost
};

class Wire {
 public:
  // Opens the network. `memory` must outlive the wire.
  [[nodiscard]] static Result<std::unique_ptr<Wire>> open(WireOptions options, NodeMemory& memory);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // For the others, in the job map.
  [[nodiscard]] std::vector<std::byte> address() const;
  // Who there is. Once, before anything below. Error: an address that is not one.
  [[nodiscard]] Status introduce(const JobMap& job_map, SpId self);

  // `from` belongs to a rank that `source` serves, `to` to a rank of this node. As Fabric::move().
  void pull(SpId source, const Block& from, const Block& to, MoveCompletion& completion);
  // The same for a block of which the source may have sent something ahead. See Fabric for these three, too.
  void pull_block(const BlockId& id, SpId source, const Block& from, const Block& to, MoveCompletion& completion);
  void forget_eager(const BlockId& id, SpId source);
  void send_eager(const BlockId& id, const Block& from, SpId reader);
  void withdraw_eager(const BlockId& id);
  // `to` belongs to a rank that `destination` serves, `from` to a rank of this node.
  void push(SpId destination, const Block& from, const Block& to, MoveCompletion& completion);
  // moved() will not be called, and nothing more is written to memory of this node: waits for what the network is
  // writing there already. What is under way may still be read for a while, and what has been pushed still arrives; the
  // memory stays mapped.
  void cancel(MoveCompletion& completion);

  // Ordered per pair.
  void send(SpId to, std::span<const std::byte> message);
  // The next message of a peer; false: none.
  [[nodiscard]] bool receive(SpId& from, std::vector<std::byte>& message);

  // Lets the network work, delivers completions. True when anything was done.
  [[nodiscard]] bool progress();
  [[nodiscard]] std::size_t moves_in_flight() const { return transfers_.size(); }
  // Of chunks: on their way, as far as this end knows, and arrived or gone so far. For whoever decides when to look.
  [[nodiscard]] std::uint64_t bytes_under_way() const {
    return window_used_bytes_ + sending_bytes_ + eager_awaited_bytes_;
  }
  [[nodiscard]] std::uint64_t bytes_moved() const { return moved_bytes_; }
  // WireOptions::waiting_messages is reached: take no further posts.
  [[nodiscard]] bool backlogged() const { return control_sends_ >= options_.waiting_messages; }

  // Once a second. `interested`: something is open that needs others.
  void tick(bool interested);
  // What ends the job.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

  // How data travels to the peers that there has been business with, each way once; grows.
  [[nodiscard]] const std::vector<WireRoute>& routes() const { return routes_; }

  // To sleep: watch the descriptors; sleep only if arm() says so, which it does after a progress() that did nothing.
  [[nodiscard]] std::vector<int> event_fds() const { return {control_->event_fd(), data_->event_fd()}; }
  [[nodiscard]] bool arm() const { return !anything_waits() && control_->arm() && data_->arm(); }

  // Tells all that were talked to that this end closes: as it should, or because its node is lost, of which they would
  // not hear otherwise. Then call progress() until all_sent(), for a little while: what has come and is not read when a
  // connection closes takes along what was sent last.
  enum class Farewell : std::uint8_t { in_order, node_lost };
  void say_goodbye(Farewell farewell = Farewell::in_order);
  [[nodiscard]] bool all_sent() const { return sends_.empty() && flushes_ == 0 && !busy_; }

 private:
  // What a chunk takes of a window, or a block of the room at a peer, at least: so these bound the number of small
  // ones.
  static constexpr std::uint64_t kLeastCharge = 256;
  enum class Line : std::uint8_t { control, data };
  // Receives for one of the two workers.
  struct Inlet final : WorkerEvents {
    ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous) override;
    Wire* wire = nullptr;
    Line line = Line::control;
  };
  // What comes in the order in which it was sent.
  struct Ordered {
    wire::Header header;
    std::vector<std::byte> payload;
  };
  // What is known of a peer, and the connections to it.
  struct Link {
    SpId sp;
    std::string name;  // of its node
    std::vector<std::byte> control_address;
    std::vector<std::byte> data_address;
    std::optional<Endpoint> control;
    std::optional<Endpoint> data;
    bool broken = false;          // nothing more is sent; what is under way stays so until tick() has seen it
    const char* fault = nullptr;  // of the peer, where we broke off ourselves
    bool departed = false;
    bool node_lost = false;  // as it says itself
    bool met = false;        // something has come from it
    bool heard = false;      // since the last tick()
    std::uint32_t silent_turns = 0;
    std::uint64_t messages_sent = 0;
    std::vector<std::byte> outbox;  // of the control line, framed: what this turn has to say, sent at its end
    std::size_t outbox_messages = 0;
    std::uint64_t messages_taken = 0;
    std::map<std::uint64_t, Ordered> early_messages;  // by number; one before them is on its way
    std::uint64_t window_used_bytes = 0;
    std::deque<wire::Header> to_send;  // chunks that it has asked for, and parts of blocks ahead; to be answered
    bool in_sending_turn = false;
    std::size_t requests = 0;         // of them, asked for
    std::deque<std::uint64_t> ready;  // transfers with chunks to be started, by turns
    bool in_turn = false;
    bool moves_memory = false;  // the network, once `data` is open
    EagerBlocks ahead;          // from it
    std::uint64_t eager_room_bytes = 0;
    std::uint64_t eager_sent = 0;  // blocks
  };
  enum class ChunkState : std::uint8_t {
    awaited,  // asked for or sent
    offered,  // here, or waiting at its source until it is received
    landing,  // the network writes it to its place
  };
  struct Chunk {
    std::uint64_t offset = 0;
    ChunkState state = ChunkState::awaited;
  };
  struct Transfer {
    bool pulls = true;
    Block from;
    Block to;
    Link* link = nullptr;
    MoveCompletion* completion = nullptr;  // null: cancelled
    std::uint64_t chunk_bytes = 0;
    std::uint64_t started_bytes = 0;
    std::vector<Chunk> open_chunks;
    std::uint64_t ahead = 0;  // the number of the block of which something comes without being asked for; 0: none
    MoveStatus status = MoveStatus::ok;
  };
  struct Send {
    wire::EncodedHeader header{};
    std::vector<std::byte> payload;  // with what stands before it in the outbox
    std::shared_ptr<const void> hold;
    StagingBuffer staging;
    std::uint64_t chunk_bytes = 0;  // of a chunk
    Line line = Line::control;
    Link* link = nullptr;
    Wire* wire = nullptr;
  };
  // A block of ours that may be sent ahead.
  struct SentEager {
    Link* link;
    std::uint64_t number;
    std::uint64_t charge_bytes;
  };
  // A chunk that waits at its source until it is received.
  struct Offer {
    Link* link;
    wire::Header header;
    void* descriptor;
  };
  struct Receipt {
    Link* link;
    wire::Header header;
    std::shared_ptr<const void> hold;
    StagingBuffer staging;
    Wire* wire;
  };
  struct Inbound {
    SpId from;
    std::vector<std::byte> message;
  };

  Wire(WireOptions options, NodeMemory& memory, Context context);

  [[nodiscard]] Link& link_of(SpId sp);
  void begin(bool pulls, SpId peer, const Block& from, const Block& to, MoveCompletion& completion,
             const BlockId* block = nullptr);
  [[nodiscard]] static std::uint64_t chunk_at(const Transfer& transfer, std::uint64_t offset);
  // The part of a rank's memory at this node that a chunk of a transfer is.
  [[nodiscard]] static MemoryRef local_part(const Transfer& transfer, std::uint64_t offset);

  // Of a block of `bytes` for this peer: how many of them may be sent ahead now.
  [[nodiscard]] std::uint64_t bytes_eager(const Link& link, std::uint64_t bytes) const;
  void take_eager(Transfer& transfer, std::uint64_t id, EagerBlock& block);
  void place_eager(Transfer& transfer, std::uint64_t offset, std::span<const std::byte> part);
  void give_up_eager(Link& link, std::uint64_t number);
  void notice_arrived(Link& link, const Ordered& notice);
  void part_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data);
  void take_part(Link& link, std::uint64_t number, std::uint64_t offset, std::span<const std::byte> data);
  // Calls `change`, which may change what is awaited of the link's blocks.
  template <class Change>
  void with_eager(Link& link, const Change& change) {
    eager_awaited_bytes_ -= link.ahead.awaited_bytes();
    change();
    eager_awaited_bytes_ += link.ahead.awaited_bytes();
  }

  // Each does what can be done now; true when anything was.
  [[nodiscard]] bool start_chunks();
  [[nodiscard]] bool start_chunk(Link& link);
  [[nodiscard]] bool answer_requests();
  [[nodiscard]] bool answer(Link& link, const wire::Header& request);
  void answer_later(Link& link, const wire::Header& request);
  [[nodiscard]] bool accept_offers();
  [[nodiscard]] bool accept(const Offer& offer);
  [[nodiscard]] bool anything_waits() const;
  [[nodiscard]] std::uint64_t charge_of(const Transfer& transfer, std::uint64_t offset) const;
  void close_chunk(Transfer& transfer, std::size_t index);
  void give_up_moves(const Link& link);
  void await_landing(std::uint64_t id);
  // A peer that does what none of ours does is not listened to any more.
  static void break_off(Link& link, const char* fault);

  ucs_status_t arrived(Line line, std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous);
  ucs_status_t take(Line line, Link& link, const wire::Header& header, void* data, std::size_t count, bool rendezvous);
  void batch_arrived(Link& link, std::span<const std::byte> batch);
  [[nodiscard]] Link* known_sender(const wire::Header& header);
  void control_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data);
  void chunk_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data);
  void ordered_arrived(Link& link, const wire::Header& header, std::span<const std::byte> data);
  void take_ordered(Link& link, Ordered&& ordered);
  [[nodiscard]] Transfer* transfer_of(const Link& link, const wire::Header& header, bool pulls);
  // The open chunk of the transfer; null: none such.
  [[nodiscard]] static Chunk* chunk_of(Transfer& transfer, std::uint64_t offset);
  void set_chunk_state(const wire::Header& header, ChunkState state);
  void chunk_received(Receipt& receipt, ucs_status_t status);
  // A chunk for this node is placed, or not: tells whoever began the move.
  void chunk_placed(Link& link, const wire::Header& header, MoveStatus status);
  void chunk_ended(const wire::Header& header, MoveStatus status);
  void finish_if_done(std::uint64_t id, Transfer& transfer);

  [[nodiscard]] wire::Header header(wire::Kind kind) const;
  void say(Link& link, const wire::Header& header, std::span<const std::byte> payload = {});
  [[nodiscard]] bool flush_outboxes();
  void flush_outbox(Link& link);
  // Of a rank elsewhere: reads the bytes and sends them, or says why not. `pushes`: of a transfer of ours.
  void fetch_and_send(Link& link, const wire::Header& header, const MemoryRef& from, StagingBuffer staging,
                      bool pushes);
  // Into the memory of a rank elsewhere: chunk_placed() follows.
  void place_elsewhere(Link& link, const wire::Header& header, const MemoryRef& to, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> hold);
  void send_chunk(Link& link, const wire::Header& header, const std::byte* bytes, std::shared_ptr<const void> hold,
                  StagingBuffer staging);
  void hand_over(Link& link, std::unique_ptr<Send> send, const std::byte* bytes, std::size_t count, unsigned flags);
  void sent(Send* send);
  [[nodiscard]] ucp_ep_h endpoint(Link& link, Line line);
  void note_route(Link& link, const Lanes& lanes);

  static void on_sent(void* request, ucs_status_t status, void* send);
  static void on_received(void* request, ucs_status_t status, std::size_t bytes, void* receipt);
  static void on_flushed(void* request, ucs_status_t status, void* wire);

  WireOptions options_;
  NodeMemory& memory_;
  SpId self_;
  Secret secret_{};
  StagingPool send_staging_;
  StagingPool receive_staging_;
  // UCX calls back while it closes: what it calls back about goes last.
  std::unordered_map<Send*, std::unique_ptr<Send>> sends_;
  std::unordered_map<Receipt*, std::unique_ptr<Receipt>> receipts_;
  std::size_t control_sends_ = 0;
  std::uint64_t sending_bytes_ = 0;
  std::uint64_t moved_bytes_ = 0;
  std::unordered_map<BlockId, SentEager> sent_eager_;
  std::uint64_t eager_awaited_bytes_ = 0;
  std::unordered_map<std::uint64_t, Transfer> transfers_;
  std::uint64_t next_transfer_ = 1;
  std::uint64_t window_used_bytes_ = 0;
  std::vector<WireRoute> routes_;
  std::deque<Link*> turns_;          // links with ready transfers
  std::vector<Link*> speaking_;      // links with something in their outbox
  std::deque<Link*> sending_turns_;  // links with something to_send
  std::deque<Offer> offers_;
  std::deque<Inbound> inbox_;
  FinishedMoves finished_;
  std::optional<std::string> failure_;
  std::size_t flushes_ = 0;
  bool busy_ = false;     // something may have been left to do since the last progress()
  bool closing_ = false;  // nobody is listened to
  Inlet control_inlet_;
  Inlet data_inlet_;
  Context context_;
  std::optional<Worker> control_;
  std::optional<Worker> data_;
  std::vector<std::unique_ptr<Link>> links_;  // by SpId; null: this node's
};

}  // namespace outrigger::fabric::ucx
