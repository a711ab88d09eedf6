// Bytes on their way through ports, in virtual time.
//
// A transfer goes along a route of ports in chunks. A port serves one chunk after the other, first come, first served:
// a time per message, plus the bytes at its rate. The head of a chunk is at the next port after a latency while its
// tail still leaves (cut-through), so a route of many ports costs its latencies and the slowest port's bytes. A link
// with a token bucket lets a burst through at once after a long enough rest.
//
//   source's memory -> PCIe -> card | switch ports | card -> PCIe -> destination's memory
//
// Each port has a queue of limited size. A chunk that does not fit waits in the previous port, and blocks the chunks
// behind it (head-of-line blocking), as on lossless networks. An empty queue always takes one chunk. All routes use
// ports in the same order, so ports never wait for each other in a ring.
//
// Transfers that share their first port take turns chunk by chunk: each has one chunk in that queue.
//
// Thread rule: one thread. Nothing is delivered from inside the call that began it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "fabric/sim/virtual_time.hpp"

namespace outrigger::sim::model {

using PortId = std::uint32_t;

struct PortModel {
  double bytes_per_s = 0;
  std::uint64_t message_ns = 0;   // per transfer
  std::uint64_t latency_ns = 0;   // until the head is at the next port
  std::uint64_t queue_bytes = 0;  // in front of it; 0: no limit
  std::uint64_t burst_bytes = 0;  // token bucket: let through at once after a rest
};

// The ports that a transfer goes through, in order.
class Route {
 public:
  static constexpr std::size_t kMostPorts = 12;

  void add(PortId port);
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] PortId operator[](std::size_t index) const { return ports_[index]; }
  [[nodiscard]] const PortId* begin() const { return ports_.data(); }
  [[nodiscard]] const PortId* end() const { return ports_.data() + count_; }

 private:
  std::array<PortId, kMostPorts> ports_{};
  std::size_t count_ = 0;
};

// Receives a transfer's chunks. Must not move before the last one.
class Receiver {
 public:
  Receiver() = default;
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  // `last`: the transfer is complete.
  virtual void chunk_arrived(std::uint64_t bytes, bool last) = 0;

 protected:
  ~Receiver() = default;
};

class Network {
 public:
  Network(fabric::sim::VirtualTime& time, std::uint64_t chunk_bytes) : time_(time), chunk_bytes_(chunk_bytes) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  PortId add_port(const PortModel& model);

  // Sends `bytes` (never 0) along the route (at least one port), from now on.
  void send(const Route& route, std::uint64_t bytes, Receiver& receiver);

  // Time of a control message: it has its own lane and never waits.
  [[nodiscard]] std::uint64_t control_ns(const Route& route, std::uint64_t bytes) const;

  // Total busy time of a port.
  [[nodiscard]] std::uint64_t busy_ns(PortId port) const { return ports_[port].busy_ns; }
  [[nodiscard]] std::uint64_t most_queued_bytes(PortId port) const { return ports_[port].most_queued_bytes; }
  [[nodiscard]] std::size_t ports() const { return ports_.size(); }
  [[nodiscard]] std::size_t transfers_in_flight() const { return transfers_.size() - free_transfers_.size(); }

 private:
  using ChunkId = std::uint32_t;
  using TransferId = std::uint32_t;

  struct Port {
    PortModel model;
    std::deque<ChunkId> queue;        // not yet in service
    std::deque<PortId> waiting;       // ports whose first chunk finds no room here
    std::uint64_t queued_bytes = 0;   // in the queue, in service, or on the way to here
    std::uint64_t serving_bytes = 0;  // in service until free_ns
    std::uint64_t free_ns = 0;
    // Time until which the rate has been used: at most a burst before now. The initial value is a full rest.
    std::int64_t used_until_ns = std::numeric_limits<std::int64_t>::min() / 2;
    std::uint64_t busy_ns = 0;
    std::uint64_t most_queued_bytes = 0;
    bool look_scheduled = false;  // an event at free_ns is scheduled
    bool blocked = false;         // its first chunk waits for the next port
  };
  struct Transfer {
    Route route;
    std::uint64_t bytes = 0;
    std::uint64_t sent_bytes = 0;  // given to the first port
    std::uint64_t arrived_bytes = 0;
    Receiver* receiver = nullptr;
  };
  struct Chunk {
    TransferId transfer = 0;
    std::uint32_t hop = 0;
    std::uint32_t bytes = 0;
    bool first = false;         // first of its transfer
    std::uint64_t tail_ns = 0;  // arrival of its last byte at the port
  };

  void enter_next_chunk(TransferId transfer);
  void arrive(ChunkId chunk);
  enum class Turn : std::uint8_t { comes_anew, has_come };
  void serve(PortId port, Turn turn = Turn::comes_anew);
  [[nodiscard]] bool may_enter(PortId port, std::uint64_t bytes, Turn turn);
  void start(PortId port, ChunkId chunk);
  void look_later(PortId port);
  void settle(Port& port);
  [[nodiscard]] bool has_room(PortId port, std::uint64_t bytes);
  void deliver(ChunkId chunk);
  [[nodiscard]] ChunkId make_chunk(TransferId transfer, std::uint32_t bytes);

  fabric::sim::VirtualTime& time_;
  std::uint64_t chunk_bytes_;
  std::vector<Port> ports_;
  std::vector<Transfer> transfers_;
  std::vector<TransferId> free_transfers_;
  std::vector<Chunk> chunks_;
  std::vector<ChunkId> free_chunks_;
};

}  // namespace outrigger::sim::model
