// What bounds the wire, and how it cuts what it moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "protocol/ids.hpp"
#include "protocol/shared/link_counts.hpp"
#include "protocol/shared/wire_route.hpp"

namespace outrigger::fabric::ucx {

struct WireOptions {
  std::string transports;                           // as UCX_TLS; empty: all but shared memory
  std::uint64_t chunk_bytes = 256U << 10;           // where the network moves memory; at most wire::kMaxChunkBytes
  std::uint64_t copied_chunk_bytes = 60U << 10;     // where processors do: a chunk is one message, and not put together
  std::uint64_t rendezvous_above_bytes = 8U << 10;  // longer chunks go by rendezvous where the network moves memory
  std::optional<bool> moves_memory;                 // the network; empty: as UCX says
  std::uint64_t peer_window_bytes = 1U << 20;       // under way with one peer; beyond it moves wait
  std::uint64_t window_bytes = 8U << 20;            // under way with all peers; beyond it moves wait
  std::uint64_t eager_bytes_of_peer = 256U << 10;   // sent before they are asked for; beyond it blocks wait to be
  std::uint64_t eager_bytes = 16U << 20;            // of all peers together
  std::size_t send_buffers = 16;                    // staging; beyond it chunks from private memory wait
  std::size_t receive_buffers = 16;                 // staging; beyond it chunks for private memory wait at their source
  std::size_t waiting_messages = 16384;             // not yet taken by the network; beyond it backlogged()
  std::size_t requests_of_peer = 65536;             // not yet answered; beyond it the peer is broken
  std::uint32_t turns_until_ping = 1;               // of tick(), without a sign of life, before one is asked for
  std::uint32_t turns_until_lost = 5;               // before the peer counts as lost
  std::uint32_t turns_until_host_lost = 3;          // the same, where it says that it has lost its host
  std::uint32_t turns_until_not_met = 12;  // the same, where no connection has been made yet: it may take tries
  std::uint32_t turns_until_connected_anew =
      3;                                    // where no connection has brought a handshake; then twice that, and so on
  std::uint32_t turns_until_given_up = 60;  // the same, where its node shows that it is there (Replacements::expect())
  // Each way that data travels to peers, once, before the first goes by it.
  std::function<void(const WireRoute&)> on_route;
  // Where what goes to each node and comes from it is counted, by link_place(); asked for once all nodes are known.
  // Empty: nowhere.
  std::function<std::span<LinkCounts>()> links;
  // A peer gives no sign of life, or its connection has broken; every tick() for which that lasts. Whoever can find out
  // otherwise that its node is there answers by Replacements::expect(). Empty: nobody can.
  std::function<void(SpId)> on_silent;
};

// What a chunk takes of a window, or a block of the room at a peer, at least: so these bound the number of small ones.
inline constexpr std::uint64_t kLeastCharge = 256;

}  // namespace outrigger::fabric::ucx
