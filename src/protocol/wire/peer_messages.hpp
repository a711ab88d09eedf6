// Messages between service processes about operations. Fixed-width, little-endian, versioned. decode() checks every
// field before use, and the engine checks claims about ranks against its own state.
//
// All messages are idempotent: they name their subject by (operation, source, destination), and a repetition changes
// nothing. Replay after a restart relies on that.
//
// Plain values without references; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger::peer {

inline constexpr std::uint16_t kVersion = 8;

// In an announcement, in place of a pair's bytes: the pair is settled.
inline constexpr std::uint64_t kSettled = ~std::uint64_t{0};

// The buffer that a rank announces.
enum class Side : std::uint8_t {
  send = 1,     // send blocks may be read: the receiver of the announcement pulls
  receive = 2,  // receive blocks may be written: the receiver of the announcement pushes
};

// In front of every message.
struct Header {
  Epoch from_epoch;  // incarnation of the sender; messages of older ones are ignored
  Epoch to_epoch;    // intended incarnation of the receiver; 0: unknown to the sender
  OperationId operation;
};

constexpr void status_field(auto& io, auto& status) {
  io.code(status, CompletionStatus::ok, CompletionStatus::passed_natively);
}

// The first bytes of every message.
struct Beginning {
  std::uint8_t kind = 0;
  Header header;
  static constexpr void fields(auto& io, auto& beginning) {
    io.constant(kVersion);
    io.value(beginning.kind, beginning.header);
    io.require(beginning.header.from_epoch != Epoch{0});
    io.require(beginning.header.operation.sequence != ~std::uint64_t{0});  // the next one would be 0 again
  }
};

// A rank has posted: places of its blocks for (or from) the ranks that the receiver serves. Those ranks are numbered by
// ascending group rank, and the announcement covers `count` of them from number `first` on. One announcement per (rank,
// receiving service process) unless it has to be split.
struct Announce {
  Side side = Side::send;
  bool again = false;  // a repetition: answer with the present state
  WorldRank rank;
  GroupRank group_rank;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint32_t root = 0;
  std::uint64_t digest = 0;
  // The memory is always `rank`'s: no message can name another owner.
  RegionId region;
  std::uint64_t base = 0;
  // Regular: the block for group rank i is `block_bytes` at base + i * stride_bytes; `extents` is empty.
  std::int64_t stride_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint32_t members = 0;  // number of the group's ranks that the receiver serves
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<PairExtent> extents;  // otherwise `count` of them, offset from base; bytes may be kSettled
  static constexpr void fields(auto& io, auto& said) {
    io.code(said.side, Side::send, Side::receive);
    io.flag(said.again);
    io.code(said.collective);  // also an unknown one: another version may have more, and the digest differs
    io.code(said.algorithm);
    io.value(said.rank, said.group_rank, said.root, said.digest, said.region, said.base);
    io.value(said.stride_bytes, said.block_bytes, said.members, said.first, said.count);
    io.require(said.count != 0 && said.first <= said.members && said.count <= said.members - said.first);
    io.list(said.extents, said.count);
    io.require(said.extents.empty() || said.extents.size() == said.count);
  }
};

// The block of `source` is in `destination`'s buffer (scatter_dest: sent by the source's side, which wrote it).
struct Delivered {
  GroupRank source;
  GroupRank destination;
  Epoch invite_epoch;  // incarnation of the destination's service process that sent the answered announcement
  CompletionStatus status = CompletionStatus::ok;
  Reach reach = Reach::mapped;
  std::uint64_t sent_bytes = 0;   // length of the source's block; more than moved: truncated
  std::uint64_t moved_bytes = 0;  // bytes written
  static constexpr void fields(auto& io, auto& said) {
    io.value(said.source, said.destination, said.invite_epoch);
    status_field(io, said.status);
    io.code(said.reach, Reach::mapped, Reach::alias);
    io.value(said.sent_bytes, said.moved_bytes);
    io.require(said.moved_bytes <= said.sent_bytes);
  }
};

// In place of a release's source: each of the receiver's ranks.
inline constexpr GroupRank kEachSource{~std::uint32_t{0}};

// `destination` needs nothing more from `source`'s buffer (sent by the destination's side). With kEachSource it has
// taken the blocks of all the receiver's ranks.
struct Release {
  GroupRank source;
  GroupRank destination;
  CompletionStatus status = CompletionStatus::ok;
  static constexpr void fields(auto& io, auto& said) {
    io.value(said.source, said.destination);
    status_field(io, said.status);
  }
};

// `rank` has completed the operation: all open pairs between it and the receiver's ranks are settled.
struct Finished {
  WorldRank rank;
  CompletionStatus status = CompletionStatus::ok;
  static constexpr void fields(auto& io, auto& said) {
    io.value(said.rank);
    status_field(io, said.status);
  }
};

// `from` and `to` call different operations: nothing moves between them.
struct Refusal {
  GroupRank from;
  GroupRank to;
};

// In place of a segment's index: the whole block.
inline constexpr std::uint32_t kWholeBlock = ~std::uint32_t{0};
inline constexpr std::uint32_t kMaxSegments = 4096;

constexpr void segment_field(auto& io, auto& segment) {
  io.value(segment);
  io.require(segment == kWholeBlock || segment < kMaxSegments);
}

// Asks if a segment of `source`'s block can be read from a replica at one of the receiver's ranks.
struct ReplicaRequest {
  GroupRank source;
  std::uint32_t segment = kWholeBlock;
  std::uint64_t digest = 0;  // of the asking rank: only ranks with the same call can serve it
  static constexpr void fields(auto& io, auto& asked) {
    io.value(asked.source);
    segment_field(io, asked.segment);
    io.value(asked.digest);
  }
};

enum class Where : std::uint32_t {
  nowhere = 1,    // not from the sender
  here = 2,       // from `holder`, which stays open until the read is done
  forwarded = 3,  // `service` gets it for this node: ask there
};

// Answer to a request. `address` and `bytes`: the source's whole block in the holder's receive buffer.
struct ReplicaAnswer {
  GroupRank source;
  std::uint32_t segment = kWholeBlock;
  Where where = Where::nowhere;
  SpId service;
  GroupRank holder;  // one of the sender's ranks
  RegionId region;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  static constexpr void fields(auto& io, auto& said) {
    io.value(said.source);
    segment_field(io, said.segment);
    io.code(said.where, Where::nowhere, Where::forwarded);
    io.value(said.service, said.holder, said.region, said.address, said.bytes);
  }
};

// The offered replica has been read, or is not wanted.
struct ReplicaDone {
  GroupRank source;
  std::uint32_t segment = kWholeBlock;
  static constexpr void fields(auto& io, auto& said) {
    io.value(said.source);
    segment_field(io, said.segment);
  }
};

// After a restart: asks if the receiver still reads from ranks of the sender. The answer comes when it does not.
struct Quiesce {
  bool asks = false;
  static constexpr void fields(auto& io, auto& said) { io.flag(said.asks); }
};

// Ranks of the sender have waited long in the operation: asks if a rank of the receiver left it to its MPI
// (native_calls.hpp). The receiver answers with Finished for each such rank.
struct Overdue {
  std::uint32_t native_calls = 0;  // of the sender's ranks, since the previous operation
};

// The kind on the wire is the index from 1, without the coordinators' kinds. Add at the end.
using Body = std::variant<Announce, Delivered, Release, Finished, Refusal, ReplicaRequest, ReplicaAnswer, ReplicaDone,
                          Quiesce, Overdue>;

// Kinds in [first, second) go to the coordinator (steer/coordinator/messages.hpp).
inline constexpr std::uint8_t kCoordinatorKinds = 10;
inline constexpr std::uint8_t kCoordinatorKindsEnd = 15;
[[nodiscard]] bool is_for_coordinator(std::span<const std::byte> bytes);

struct Message {
  Header header;
  Body body;
};

// Bytes of an announcement without extents, and of each extent.
[[nodiscard]] std::size_t announce_bytes();
inline constexpr std::size_t kExtentBytes = sizeof(PairExtent);

// Appends the encoded message to `out`.
void encode(const Message& message, std::vector<std::byte>& out);

// nullopt for bytes that encode() would not have written.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> bytes);

// The operation of bytes that begin like an announcement. Does not check the rest.
[[nodiscard]] std::optional<OperationId> announced(std::span<const std::byte> bytes);

}  // namespace outrigger::peer
