// Finds operations that wait because another rank has left its call to the native MPI. MPI gives such a call the same
// counts on all ranks. If a program breaks that rule, some ranks decide differently.
//
//     waits                     serves the rank
//       overdue {native calls} ---->
//       <------------ finished {rank}     if it has left more calls to its MPI than the waiting ranks, or has ended the
//                                         operation
//
// Each service process of the group gets a message at the 2nd, 4th, 8th, ... check of an operation. Only the oldest
// operation of a group is checked: the others wait behind it.
//
// A rank whose blocks are held back announces nothing yet, so peers cannot answer it. Its service process asks in this
// way after a restart, and asks those that have restarted. Only the next check finds a rank that was lost, or that is
// replayed after the question.
#pragma once

#include "engine/core/context.hpp"
#include "engine/core/group_table.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

// See Engine::look_for_passed().
bool look_for_overdue(const GroupTable& groups);
void answer_overdue(const GroupTable& groups, Context& context, SpId from, const OperationId& id,
                    const peer::Overdue& overdue);

}  // namespace outrigger::engine
