// Moves and reduces blocks of ranks' memory: one of the three seams under the engine (fabric/seams.hpp).
//
// The engine chooses the moves. The mover chooses the method: one memcpy, one cross-memory copy, a relay in pipelined
// chunks, or RDMA. The engine never stages.
//
// Thread rule: one engine, one mover, one thread. Nothing here blocks, and no call delivers a completion before it
// returns.
#pragma once

#include <cstdint>
#include <span>

#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::fabric {

enum class MoveStatus : std::uint8_t {
  ok = 0,
  memory_fault = 1,  // a range is not readable or writable, or not its owner's
  owner_lost = 2,    // the process that owns a range is gone
};

struct MoveOutcome {
  MoveStatus status = MoveStatus::ok;
  Reach reach = Reach::mapped;
};

// Receives the end of one move. Owned by the caller of move(); must stay in place until moved() has been called or
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

  // Copies `from.bytes` bytes (never 0) to `to`, which has the same length. Both ranges stay valid and unchanged by
  // others until `completion.moved()` has been called, exactly once. `name`: the block's name if its source may have
  // sent some of it eagerly, else nullptr.
  virtual void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) = 0;

  // Puts ((operands[0] op operands[1]) op operands[2]) and so on into `into`, element by element. There are at least
  // two operands. They and `into` have the same length, not 0, in whole elements. `into` may be the first operand, and
  // otherwise overlaps none. `names`: one per operand, or empty. Both lists are copied. Completion as for move(). After
  // cancel() or a failure the contents of `into` are undefined.
  virtual void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
                      const Block& into, MoveCompletion& completion) = 0;

  // Drops a move or a reduction: after the return none of its bytes are read or written, and moved() will not be
  // called.
  virtual void cancel(MoveCompletion& completion) = 0;

  // Eager blocks: a mover may send blocks before the other side requests them, which saves a round trip on long routes.
  // These calls are hints that a mover may ignore.
  //
  // The service process `reader` will request this local rank's block by its name, after the messages to it that
  // follow. The bytes may be read until withdraw_eager().
  virtual void send_eager(const BlockId& name, const Block& from, SpId reader) = 0;
  // None of its bytes are read after the return. Each block that was given to send_eager() is withdrawn.
  virtual void withdraw_eager(const BlockId& name) = 0;
  // This block will not be moved to a local rank any more.
  virtual void forget_eager(const BlockId& name, SpId source) = 0;

 protected:
  ~BlockMover() = default;
};

}  // namespace outrigger::fabric
