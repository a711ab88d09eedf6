// Chunks of this node's memory, sent: UCX reads mapped memory itself, private memory and that of ranks elsewhere goes
// through a fixed number of staging buffers.
//
// Thread rule: one thread.
#pragma once

#include <functional>
#include <optional>

#include "fabric/memory_reducer.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/channels.hpp"

namespace outrigger::fabric::ucx {

class ChunkSender {
 public:
  ChunkSender(const WireOptions& options, NodeMemory& memory, Channels& channels)
      : memory_(memory),
        reducer_(memory),
        channels_(channels),
        staging_(options.send_buffers, wire::kMaxChunkBytes) {}  // the peer says how long its chunks are

  // Nothing: no buffer now. Not ok: it cannot be read. Else it is sent, now or when it has been read; `failed` is told
  // later where that failed.
  using Failed = std::function<void(Peer& peer, const wire::Header& header, MoveStatus status)>;
  [[nodiscard]] std::optional<MoveStatus> send(Peer& peer, const wire::Header& header, const MemoryRef& from,
                                               const Failed& failed);
  // The same of operands of this node, reduced into a buffer.
  [[nodiscard]] std::optional<MoveStatus> send_reduced(Peer& peer, const wire::Header& header,
                                                       const ReduceRanges& ranges, const Failed& failed);

 private:
  void fetch_and_send(Peer& peer, const wire::Header& header, const MemoryRef& from, StagingBuffer staging,
                      const Failed& failed);
  void fetch_reduce_and_send(Peer& peer, const wire::Header& header, const ReduceRanges& ranges, StagingBuffer staging,
                             const Failed& failed);

  NodeMemory& memory_;
  MemoryReducer reducer_;
  Channels& channels_;
  StagingPool staging_;
};

}  // namespace outrigger::fabric::ucx
