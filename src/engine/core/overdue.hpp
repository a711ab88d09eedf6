// Operations that have been waited for long, because a rank may have left its call to its MPI. MPI makes the counts of
// such a call equal on all ranks; where a program does not keep to that, some ranks decide otherwise than the rest.
//
//     waits                     serves the rank
//       overdue {native calls} ---->
//       <------------ finished {rank}     if it has left more calls to its MPI than those who wait
//
// Each service process of the group gets a message at the 2nd, 4th, 8th, ... look at an operation. Only the oldest one
// of a group is looked at: ranks pass it before any behind it.
#pragma once

#include "engine/core/context.hpp"
#include "engine/core/group_table.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

// As Engine::look_for_passed().
bool look_for_overdue(const GroupTable& groups);
void answer_overdue(Context& context, SpId from, const OperationId& id, const peer::Overdue& overdue);

}  // namespace outrigger::engine
