// Who copies a block within a node, by which lane, and when: all of it is decided by what stands here. Pure.
//
// A service process knows each of the two buffers as mapped here, attachable (private, by XPMEM) or private. The lane:
//
//   to          from: mapped     attachable   private
//   mapped      direct           xpmem        cma; a rank's own block: lender, else cma
//   attachable  xpmem            xpmem        lender, else relay
//   private     cma, or the same lender, else relay
//
//   lane     what                                                    by whom
//   direct   one memcpy                                              service process
//   xpmem    one memcpy; what faults goes by cma or relay            service process
//   cma      one process_vm_readv or process_vm_writev               service process
//   lender   one process_vm_readv or writev; memcpy in one process   a rank that lends its threads: the destination's,
//                                                                    else the source's
//   relay    two, into a buffer of its own and out of it             service process
//
// Who lends depends on the service process's core (core_share.hpp):
//
//   own, shared  each rank's copier, a thread on that core; while all ranks wait at once after their posts, they too
//
//   none         ranks that wait or test; nobody has a core to spare
//
//   idle         nobody: the service process copies by itself, on a core that nobody uses
//
// A lender may be missing: not allowed (reach), not started yet, busy with huge pages, without access to the other
// process. Then, and where there is too little for it, the service process takes its own lane. Before all this, a rank
// copies its own block itself where that is less trouble than telling somebody: rank_copies_own_block().
#pragma once

#include <chrono>
#include <cstdint>

#include "copy/core_share.hpp"

namespace outrigger::copy {

// How a service process reaches a buffer. The last two: a process's private memory.
enum class Memory : std::uint8_t { mapped, attachable, private_memory };

enum class Lane : std::uint8_t { direct, xpmem, cma, lender, relay };

// Who lends: a copier, helped by ranks that wait, when they are asked; or such ranks alone.
enum class Lenders : std::uint8_t { none, copiers, waiting_ranks };

// From here on telling somebody costs less than a second copy: a block of so much is a reason to have a lender (there
// may be more), ranks that wait are given it, and a rank leaves its own block to others.
inline constexpr std::uint64_t kLeastBytesToLend = 16U << 10;
// And from here on waking a copier does, with all that there is for it.
inline constexpr std::uint64_t kLeastBytesToWakeCopier = 64U << 10;

[[nodiscard]] constexpr Lenders lenders_with(CoreShare share) {
  switch (share) {
    case CoreShare::own:
    case CoreShare::shared: return Lenders::copiers;
    case CoreShare::none: return Lenders::waiting_ranks;
    case CoreShare::idle: break;
  }
  return Lenders::none;
}

// `lender`: there is one who can make the copy. `within`: both buffers are one rank's.
[[nodiscard]] constexpr Lane lane_of(Memory from, Memory to, bool within, bool lender) {
  if (from == Memory::mapped && to == Memory::mapped) return Lane::direct;
  if (from != Memory::private_memory && to != Memory::private_memory) return Lane::xpmem;
  const bool one_mapped = from == Memory::mapped || to == Memory::mapped;
  if (lender && (within || !one_mapped)) return Lane::lender;
  return one_mapped ? Lane::cma : Lane::relay;
}

[[nodiscard]] constexpr bool wants_lender(std::uint64_t block_bytes) {
  return block_bytes >= kLeastBytesToLend;
}

// So much waits for one lender who has nothing to do: is it worth calling?
[[nodiscard]] constexpr bool worth_lending(Lenders lenders, std::uint64_t bytes) {
  return bytes >= (lenders == Lenders::copiers ? kLeastBytesToWakeCopier : kLeastBytesToLend);
}

// In its first completion call, without telling anybody. Of a block that is not mapped at both ends, where one memcpy
// of the service process is the cheapest. `others_can`: there is a copier, or XPMEM, or the service processes are on a
// DPU.
[[nodiscard]] constexpr bool rank_copies_own_block(std::uint64_t bytes, bool others_can) {
  return !others_can || bytes < kLeastBytesToLend;
}

// So long after its last post a rank that waits does so at once: no longer than a program needs that does no work in
// between, and the eighth part of the time in which one core makes the copies (at 5 GB/s). Who computes for longer has
// most of them behind it then, and help would cost more than it brings.
[[nodiscard]] constexpr std::chrono::nanoseconds at_once_after(std::uint64_t bytes) {
  constexpr std::uint64_t kBytesPerNs = 40;
  return std::chrono::microseconds(10) + std::chrono::nanoseconds(bytes / kBytesPerNs);
}

// Does a rank that waits say that it would copy? Where it does so alone, whenever it waits.
[[nodiscard]] constexpr bool rank_lends(Lenders lenders, bool waits_at_once) {
  return lenders == Lenders::waiting_ranks || (lenders == Lenders::copiers && waits_at_once);
}

// Does the service process ask ranks that wait? Beside copiers only while all do: one that computes may need the core.
[[nodiscard]] constexpr bool ranks_are_asked(Lenders lenders, bool all_wait) {
  return rank_lends(lenders, all_wait);
}

// Is the service process's core lent by a sleep? Where ranks compute there, a turn that is yielded lasts milliseconds.
// Elsewhere a yield costs less.
[[nodiscard]] constexpr bool sleeps_while_lending(CoreShare share) {
  return share != CoreShare::own;
}

}  // namespace outrigger::copy
