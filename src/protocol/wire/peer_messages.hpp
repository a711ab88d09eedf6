// What service processes say to each other about operations. Fixed-width, little-endian, versioned; every field is
// checked by decode() before anything uses it, and claims about ranks are checked by the engine against what it knows.
//
// All messages are idempotent: they name what they are about by (operation, source, destination), and saying one
// twice changes nothing. That is what replay after a restart rests on.
//
// Plain values without ownership ties; safe from any thread.
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

namespace outrigger::peer {

inline constexpr std::uint16_t kVersion = 6;

// In an announcement, in place of a pair's bytes: this pair needs nothing any more.
inline constexpr std::uint64_t kSettled = ~std::uint64_t{0};

// Which of its buffers a rank announces.
enum class Side : std::uint8_t {
  send = 1,     // "my send blocks may be read": the receiver of the announcement pulls
  receive = 2,  // "my receive blocks may be written": the receiver of the announcement pushes
};

// Stands before every message.
struct Header {
  Epoch from_epoch;  // incarnation of the sender; what an older one said is ignored
  Epoch to_epoch;    // incarnation the message is meant for; 0: the sender does not know
  OperationId operation;
};

// A rank has posted: where its blocks for (or from) the ranks that the receiver serves are. Those ranks are numbered
// by ascending group rank, and the announcement covers `count` of them from number `first` on. One announcement per
// (rank, receiving service process) unless it has to be split.
struct Announce {
  Side side = Side::send;
  bool again = false;  // may have been said before: answer with what has become of it
  WorldRank rank;
  GroupRank group_rank;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint32_t root = 0;
  std::uint64_t digest = 0;
  // The memory is `rank`'s by construction: no message can name another owner.
  RegionId region;
  std::uint64_t base = 0;
  // Regular: the block for group rank i is `block_bytes` at base + i * stride_bytes; `extents` is empty.
  std::int64_t stride_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint32_t members = 0;  // how many ranks of the group the receiver serves
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<PairExtent> extents;  // otherwise `count` of them, offset from base; bytes may be kSettled
};

// The block of `source` is in `destination`'s buffer (scatter_dest: said by the source's side, which wrote it).
struct Delivered {
  GroupRank source;
  GroupRank destination;
  Epoch invite_epoch;  // incarnation of the destination's service process whose announcement this answers
  CompletionStatus status = CompletionStatus::ok;
  Reach reach = Reach::mapped;
  std::uint64_t sent_bytes = 0;   // what the source had to send; more than moved: truncated
  std::uint64_t moved_bytes = 0;  // what was written
};

// `destination` needs nothing more from `source`'s buffer (said by the destination's side).
struct Release {
  GroupRank source;
  GroupRank destination;
  CompletionStatus status = CompletionStatus::ok;
};

// `rank` has completed the operation: whatever is still open between it and the receiver's ranks needs nothing more.
struct Finished {
  WorldRank rank;
  CompletionStatus status = CompletionStatus::ok;
};

// `from` and `to` disagree about what the operation is: nothing moves between them in either direction.
struct Refusal {
  GroupRank from;
  GroupRank to;
};

// In place of a segment's index: the whole block.
inline constexpr std::uint32_t kWholeBlock = ~std::uint32_t{0};
inline constexpr std::uint32_t kMaxSegments = 4096;

// May a segment of `source`'s block be read from one of the receiver's ranks, which has a replica of it?
struct ReplicaRequest {
  GroupRank source;
  std::uint32_t segment = kWholeBlock;
  std::uint64_t digest = 0;  // what the asking rank calls: only ranks that call the same are of use
};

enum class Where : std::uint32_t {
  nowhere = 1,    // not from the sender
  here = 2,       // from `holder`, which is kept open until it is done
  forwarded = 3,  // `service` gets it for this node: ask there
};

// To a request. `address` and `bytes` are those of the source's whole block in the holder's receive buffer.
struct ReplicaAnswer {
  GroupRank source;
  std::uint32_t segment = kWholeBlock;
  Where where = Where::nowhere;
  SpId service;
  GroupRank holder;  // one of the sender's ranks
  RegionId region;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// What was offered has been read, or is not wanted.
struct ReplicaDone {
  GroupRank source;
  std::uint32_t segment = kWholeBlock;
};

// After a restart: does the receiver still read from ranks of the sender? The answer comes when it does not.
struct Quiesce {
  bool asks = false;
};

// Ranks of the sender have waited long in the operation. Has one of the receiver's left it to its MPI
// (native_calls.hpp)? The receiver answers with Finished for each that has.
struct Overdue {
  std::uint32_t native_calls = 0;  // of the sender's ranks, since the operation before
};

// Their places, from 1, are the kinds on the wire; those of the coordinators are left out. Add at the end.
using Body = std::variant<Announce, Delivered, Release, Finished, Refusal, ReplicaRequest, ReplicaAnswer, ReplicaDone,
                          Quiesce, Overdue>;

// Messages of kinds from the first to before the second go to the coordinator (steer/coordinator/messages.hpp).
inline constexpr std::uint8_t kCoordinatorKinds = 10;
inline constexpr std::uint8_t kCoordinatorKindsEnd = 15;
[[nodiscard]] bool is_for_coordinator(std::span<const std::byte> bytes);

struct Message {
  Header header;
  Body body;
};

// Bytes of an announcement without extents, and of each extent.
[[nodiscard]] std::size_t announce_bytes();
inline constexpr std::size_t kExtentBytes = 16;

// Appends the encoded message to `out`.
void encode(const Message& message, std::vector<std::byte>& out);

// Nothing for anything that encode() would not have written.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> bytes);

// Of what begins as an announcement does: for which operation. The rest is not looked at.
[[nodiscard]] std::optional<OperationId> announced(std::span<const std::byte> bytes);

}  // namespace outrigger::peer
