// Can all members of a team copy from each other? They try once: system-call filters, security modules and
// containers may forbid it between some.
#pragma once

#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"

namespace outrigger::intranode {

// The first operation of a team, in which its members meet. `all`: they can.
[[nodiscard]] Outcome try_direct(Meeting& meeting, PeerMemory& memory, bool& all);

}  // namespace outrigger::intranode
