// The algorithms of src/intranode, one file each. All members call the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "intranode/branches.hpp"
#include "intranode/combine.hpp"
#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"
#include "intranode/split_sum.hpp"

namespace outrigger::intranode {

Outcome barrier_flat(Meeting& meeting);
Outcome broadcast_slots(Meeting& meeting, std::span<std::byte> buffer, std::uint32_t root);
// `equal`: all blocks are equally long, as all members know.
Outcome gather_slots(Meeting& meeting, std::span<const std::byte> mine, const Blocks& into, std::uint32_t root,
                     bool equal);
// `direct`: of the v-forms, in which members know the lengths after a step.
Outcome scatter_slots(Meeting& meeting, const Blocks& from, std::span<std::byte> mine, std::uint32_t root, bool equal,
                      const DirectBlocks& direct);
Outcome allgather_slots(Meeting& meeting, std::span<const std::byte> mine, const Blocks& into);
Outcome alltoall_slots(Meeting& meeting, const Blocks& from, const Blocks& into, bool equal,
                       const DirectBlocks& direct);

// Without slots. No block is in place but the member's own.
Outcome broadcast_direct(Meeting& meeting, PeerMemory& memory, std::span<std::byte> buffer, std::uint32_t root);
Outcome gather_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into,
                      std::uint32_t root);
// `longest` block, as all members know.
Outcome scatter_direct(Meeting& meeting, PeerMemory& memory, const Blocks& from, std::span<std::byte> mine,
                       std::uint32_t root, bool equal, std::uint64_t longest);
Outcome allgather_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into);
Outcome alltoall_direct(Meeting& meeting, PeerMemory& memory, const Blocks& from, const Blocks& into, bool equal);

Outcome reduce_slots(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine,
                     std::uint32_t root);
Outcome allreduce_slots(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine);
// No root: everybody gets the result.
Outcome reduce_shared_slices(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine,
                             std::optional<std::uint32_t> root);
Outcome reduce_scatter_slots(Meeting& meeting, const std::byte* mine, std::span<const std::uint64_t> bytes,
                             std::byte* into, const Combine& combine);
// `scratch` keeps its memory for the next call. Whole elements are in kPieceUnit.
Outcome allreduce_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, std::byte* into,
                         const Combine& combine, std::vector<std::byte>& scratch);
Outcome reduce_scatter_direct(Meeting& meeting, PeerMemory& memory, const std::byte* mine,
                              std::span<const std::uint64_t> bytes, std::byte* into, const Combine& combine,
                              std::vector<std::byte>& scratch);
Outcome scan_slots(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine,
                   bool with_own);

// In two levels: up to kShortBytes, where allgather_branches() counts all blocks.
Outcome barrier_branches(Meeting& meeting, const Branches& branches);
Outcome broadcast_branches(Meeting& meeting, const Branches& branches, std::span<std::byte> buffer, std::uint32_t root);
Outcome allgather_branches(Meeting& meeting, const Branches& branches, std::span<const std::byte> mine,
                           const Blocks& into);
Outcome reduce_branches(Meeting& meeting, const SplitSum& split, std::span<const std::byte> mine, std::byte* into,
                        const OrderCombine& combine, std::uint32_t root);
Outcome allreduce_branches(Meeting& meeting, const SplitSum& split, std::span<const std::byte> mine, std::byte* into,
                           const OrderCombine& combine);

}  // namespace outrigger::intranode
