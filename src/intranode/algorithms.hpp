// The algorithms of src/intranode, one file each. All members call the same one.
#pragma once

#include <cstdint>
#include <span>

#include "intranode/combine.hpp"
#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"

namespace outrigger::intranode {

Outcome barrier_flat(Meeting& meeting);
Outcome broadcast_slots(Meeting& meeting, std::span<std::byte> buffer, std::uint32_t root);

}  // namespace outrigger::intranode
