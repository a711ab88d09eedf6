// Limits and chunk sizes of the wire.
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
  std::uint64_t chunk_bytes = 256U << 10;           // if the network moves memory; at most wire::kMaxChunkBytes
  std::uint64_t copied_chunk_bytes = 60U << 10;     // if processors copy: one message per chunk, without fragments
  std::uint64_t rendezvous_above_bytes = 8U << 10;  // longer chunks go by rendezvous if the network moves memory
  std::optional<bool> moves_memory;                 // the network; empty: as UCX reports
  std::uint64_t peer_window_bytes = 1U << 20;       // in flight with one peer; at the limit moves wait
  std::uint64_t window_bytes = 8U << 20;            // in flight with all peers; at the limit moves wait
  std::uint64_t eager_bytes_of_peer = 256U << 10;   // sent before a request; at the limit blocks wait for it
  std::uint64_t eager_bytes = 16U << 20;            // of all peers together
  std::size_t send_buffers = 16;                    // staging; beyond it chunks from private memory wait
  std::size_t receive_buffers = 16;                 // staging; beyond it chunks for private memory wait at their source
  std::size_t waiting_messages = 16384;             // not yet taken by the network; beyond it backlogged()
  std::size_t requests_of_peer = 65536;             // not yet answered; beyond it the peer is broken
  std::uint32_t turns_until_ping = 1;               // of tick() without input, before a ping is sent
  std::uint32_t turns_until_lost = 5;               // before the peer counts as lost
  std::uint32_t turns_until_host_lost = 3;          // the same, if it reports the loss of its host
  std::uint32_t turns_until_not_met = 12;           // the same, before the first connection
  std::uint32_t turns_until_connected_anew = 3;     // without a handshake in a connection; doubled each time
  std::uint32_t turns_until_given_up = 60;          // the same, if its node lives (Replacements::expect())
  // Called once for each route to peers, before its first use.
  std::function<void(const WireRoute&)> on_route;
  // Counters for each node, indexed by link_place(). Called once all nodes are known. Empty: not counted.
  std::function<std::span<LinkCounts>()> links;
  // Called at every tick() while a peer sends nothing or its connection is broken. If its node lives, answer by
  // Replacements::expect(). May be empty.
  std::function<void(SpId)> on_silent;
};

// Minimum charge of a chunk to a window, and of a block to a peer's room, which limits the number of small ones.
inline constexpr std::uint64_t kLeastCharge = 256;

}  // namespace outrigger::fabric::ucx
