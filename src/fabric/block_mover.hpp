// Moves and reduces blocks of ranks' memory: one of the three seams under the engine (fabric/seams.hpp).
//
// The engine chooses *what* moves; the mover chooses *how* (one memcpy, one cross-memory copy, a relay in pipelined
// chunks, RDMA). The engine never stages.
//
// Thread rule: one engine, one mover, one thread. Nothing here blocks, and no completion is delivered from inside the
// call that started it.
#pragma once

#include <cstdint>
#include <span>

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

class BlockMover {
 public:
  BlockMover() = default;
  BlockMover(const BlockMover&) = delete;
  BlockMover& operator=(const BlockMover&) = delete;

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
                      const Block& into, MoveCompletion& completion) = 0;

  // Forgets a move or a reduction: after the return no byte of it is read or written any more and moved() will not be
  // called.
  virtual void cancel(MoveCompletion& completion) = 0;

  // Eager blocks: where the way is long, a mover may send blocks before the other side asks for them. Only hints: a
  // mover that does nothing of it is right, too.
  //
  // The service process `reader` will take this block of a rank here by its name, after the messages to it that follow.
  // The bytes may be read until withdraw_eager().
  virtual void send_eager(const BlockId& name, const Block& from, SpId reader) = 0;
  // Not a byte of it is read any more after the return. Each block that was given to send_eager() is withdrawn.
  virtual void withdraw_eager(const BlockId& name) = 0;
  // This block is not moved to a rank here (any more).
  virtual void forget_eager(const BlockId& name, SpId source) = 0;

 protected:
  ~BlockMover() = default;
};

}  // namespace outrigger::fabric
