// Sends chunks of this node's memory. UCX reads mapped memory itself; private memory and that of remote ranks goes
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
        staging_(options.send_buffers, wire::kMaxChunkBytes) {}  // the peer chooses the size of its chunks

  // nullopt: no buffer is free. Not ok: the memory cannot be read. Otherwise the chunk is sent, now or after it has
  // been read; a later failure calls `failed`.
  using Failed = std::function<void(Peer& peer, const wire::Header& header, MoveStatus status)>;
  [[nodiscard]] std::optional<MoveStatus> send(Peer& peer, const wire::Header& header, const MemoryRef& from,
                                               const Failed& failed);
  // Adds a short chunk of local memory to the peer's messages.
  [[nodiscard]] MoveStatus say(Peer& peer, const wire::Header& header, const MemoryRef& from);
  // As send(), for operands of this node, reduced into a buffer.
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
