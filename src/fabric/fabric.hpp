// The one seam under the engine: everything the engine can ask of the world.
//
// Behind it stand host/ (same-node memory), ucx/ (the wire), dpu/ (ranks reached from a DPU) and sim/ (virtual time).
// The engine chooses *what* moves; the fabric chooses *how* (one memcpy, one cross-memory copy, a relay in pipelined
// chunks, RDMA). The engine never stages.
//
// Thread rule: one engine, one fabric, one thread. Nothing here blocks, and no completion is delivered from inside
// the call that started it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "protocol/collective.hpp"
#include "protocol/course.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::fabric {

enum class MoveStatus : std::uint8_t {
  ok = 0,
  memory_fault = 1,  // a range is not readable or writable, or not the owner's
  owner_lost = 2,    // the process that owns a range is gone
};

struct MoveOutcome {
  MoveStatus status = MoveStatus::ok;
  Reach reach = Reach::mapped;
};

// Receives the end of one move. Owned by the caller of move(); must stay where it is until moved() has been called or
// cancel() has returned.
class MoveCompletion {
 public:
  MoveCompletion() = default;
  MoveCompletion(const MoveCompletion&) = delete;
  MoveCompletion& operator=(const MoveCompletion&) = delete;
  virtual void moved(const MoveOutcome& outcome) = 0;

 protected:
  ~MoveCompletion() = default;
};

// What a rank is told of an operation that has ended.
struct CompletionRecord {
  CompletionStatus status = CompletionStatus::ok;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};  // bytes received by this rank, index Reach
  std::uint32_t late_announcements = 0;  // peers' announcements that were here before this rank posted
  WorldRank passed_by;                   // of passed_natively
};

class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  // Copies `from.bytes` bytes (never 0) to `to`; `to.bytes` equals `from.bytes`. The memory at both ends stays
  // untouched by others until `completion.moved()` has been called, exactly once. `name`: of a block that its source
  // may have sent eagerly, in part or as a whole; null: it has not.
  virtual void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) = 0;

  // Puts ((operands[0] op operands[1]) op operands[2]) and so on into `into`, element by element. There are two
  // operands at least; they and `into` have as many bytes, never 0, of whole elements; `into` may be the first operand
  // itself, and otherwise overlaps none. `names`: as many as operands, or none. Both lists are copied before the
  // return. The rest as for move(); where it ends before its time, by cancel() or a failure, what is in `into` is
  // undefined.
  virtual void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
                      const Block& into, MoveCompletion& completion);

  // Forgets a move or a reduction: after the return no byte of it is read or written any more and moved() will not be
  // called.
  virtual void cancel(MoveCompletion& completion) = 0;

  // Eager blocks: where the way is long, a fabric may send blocks before the other side asks for them. Only hints: a
  // fabric that does nothing of it is right, too.
  //
  // Of a rank here: the service process `reader` will take this block by its name, after the messages to it that
  // follow. The bytes may be read until withdraw_eager().
  virtual void send_eager(const BlockId& name, const Block& from, SpId reader);
  // Not a byte of it is read any more after the return. Each block that was given to send_eager() is withdrawn.
  virtual void withdraw_eager(const BlockId& name);
  // Of a rank here: nobody will move the block (any more).
  virtual void forget_eager(const BlockId& name, SpId source);

  // Hands a message to another service process (never to itself). Ordered per pair, not lost while both live. The
  // bytes are copied before the return.
  virtual void send(SpId to, std::span<const std::byte> message) = 0;

  // Writes the delivered mark of `source`'s block into the destination rank's memory, which outlives this service
  // process. Called after the bytes are placed and before the source is released.
  virtual void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) = 0;

  // Holds a rank's calls on a communicator (protocol/course.hpp): from now on it waits in the next one. How many it has
  // begun; nothing: it cannot be held, and is not.
  [[nodiscard]] virtual std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group);
  // Lets it go. `plan`: by which it goes from then on; null: as before.
  virtual void resume_calls(WorldRank rank, const GroupId& group, const CoursePlan* plan);

  // Has a rank here left the operation to its MPI (protocol/native_calls.hpp)? Ranks that have posted it had made
  // `native_calls` native calls before. False also where it cannot be seen.
  [[nodiscard]] virtual bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls);

  // A kept operation's rank may be told that all its receive blocks are in its memory, each marked as delivered: it
  // goes on, while its memory stays as it is until complete(). At most once for each posted slot, before complete(),
  // with the record that complete() would have then. Only a hint: a fabric that does nothing of it is right, too.
  virtual void filled(WorldRank rank, SlotIndex slot, const CompletionRecord& record);

  // Makes the end of an operation visible to its rank, which polls its own memory. Called once per posted slot.
  virtual void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) = 0;
};

inline void Fabric::reduce(const Reduction& /*reduction*/, std::span<const Block> /*operands*/,
                           std::span<const BlockId> /*names*/, const Block& /*into*/, MoveCompletion& /*completion*/) {
  std::abort();  // nobody posts a reduction where there are none: a bug of ours
}
inline void Fabric::send_eager(const BlockId& /*id*/, const Block& /*from*/, SpId /*reader*/) {}
inline void Fabric::withdraw_eager(const BlockId& /*id*/) {}
inline std::optional<std::uint64_t> Fabric::hold_calls(WorldRank /*rank*/, const GroupId& /*group*/) {
  return std::nullopt;
}
inline void Fabric::resume_calls(WorldRank /*rank*/, const GroupId& /*group*/, const CoursePlan* /*plan*/) {}
inline bool Fabric::has_passed(WorldRank /*rank*/, const OperationId& /*operation*/, std::uint32_t /*native_calls*/) {
  return false;
}
inline void Fabric::filled(WorldRank /*rank*/, SlotIndex /*slot*/, const CompletionRecord& /*record*/) {}
inline void Fabric::forget_eager(const BlockId& /*id*/, SpId /*source*/) {}

}  // namespace outrigger::fabric
