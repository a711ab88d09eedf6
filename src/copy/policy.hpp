// Decides how a block is copied within a node: by which process, by which lane, and when. Pure functions.
//
// For a service process each of the two buffers is mapped, attachable (private, by XPMEM) or private. The lane:
//
//   to          from: mapped     attachable   private
//   mapped      direct           xpmem        cma; a rank's own block: lender, else cma
//   attachable  xpmem            xpmem        lender, else relay
//   private     cma, or the same lender, else relay
//
//   lane     what                                                    by whom
//   direct   one memcpy                                              service process
//   xpmem    one memcpy; after a fault cma or relay                  service process
//   cma      one process_vm_readv or process_vm_writev               service process
//   lender   one process_vm_readv or writev; memcpy in one process   a rank that lends its threads: the destination's,
//                                                                    else the source's
//   relay    two, through a buffer of the service process            service process
//
// The lenders depend on the service process's core (core_share.hpp):
//
//   own, shared  each rank's copier, a thread on that core; also the ranks, while all wait: soon after their posts, or
//                if much is left to copy
//
//   none         waiting or testing ranks, as no core is free
//
//   idle         none: the service process copies by itself, on an otherwise unused core
//
//   none         the same with service processes on a DPU (host_mover_of()): their own lane is the network card
//
// A lender may be missing: not allowed (reach), not started yet, busy with huge pages, or without access to the other
// process. Then, and for too few bytes, the service process uses its own lane. Before all this, a rank copies its own
// block itself if that costs less than a request: rank_copies_own_block().
#pragma once

#include <chrono>
#include <cstdint>

#include "copy/core_share.hpp"

namespace outrigger::copy {

// Access of a service process to a buffer. The last two: a process's private memory.
enum class Memory : std::uint8_t { mapped, attachable, private_memory };

enum class Lane : std::uint8_t { direct, xpmem, cma, lender, relay };

// Lenders: a copier, helped by waiting ranks on request; or waiting ranks alone.
enum class Lenders : std::uint8_t { none, copiers, waiting_ranks };

// From this size on a request costs less than a second copy. Blocks of this size are a reason to have a lender, are
// given to waiting ranks, and a rank leaves its own block of this size to others.
inline constexpr std::uint64_t kLeastBytesToLend = 16U << 10;
// From this total size on, waking a copier pays, too.
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

// `lender`: a lender can make the copy. `within`: both buffers are one rank's.
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

// True if an idle lender with this many waiting bytes should be called.
[[nodiscard]] constexpr bool worth_lending(Lenders lenders, std::uint64_t bytes) {
  return bytes >= (lenders == Lenders::copiers ? kLeastBytesToWakeCopier : kLeastBytesToLend);
}

// With service processes on a DPU: moves a block, or a chunk of one, between two ranks of the host. The card needs no
// core, but each byte crosses PCIe twice. `none`: the chunk waits for a rank or the card, whichever is free first.
enum class HostMover : std::uint8_t { none, card, destination, source };

// Bytes that a rank has been given and not copied. At the limit it gets no more.
inline constexpr std::uint64_t kMostBytesLent = 512U << 10;
// Bytes within the host that the card moves at a time for one service process. They are few, as blocks that cross the
// network need the same PCIe link. Further ones wait for the card, or for ranks that begin to wait: these copy faster.
inline constexpr std::uint64_t kMostBytesByCard = 256U << 10;
// A rank that does not wait after this time from its post computes, or has no core.
inline constexpr std::chrono::microseconds kUntilComputes{100};

// A rank of the host below its limit offers its copier on a spare core (docs/inside/memory.md), or threads that
// wait.
enum class Offer : std::uint8_t { none, copier, waiting };

// Moves within the host that may wait at a service process, for ranks or the card (engine::EngineLimits).
inline constexpr std::uint32_t kMostNearMoves = 4096;

// `may_wait`: one of the two ranks waits and will copy more, or may begin to, as the block is younger than
// kUntilComputes. `card_bytes`: moved by the card now. Ranks that wait come first, as they have nothing else to do, and
// together they copy faster than the others. The card comes last, as the network needs it.
[[nodiscard]] constexpr HostMover host_mover_of(Offer destination, Offer source, bool may_wait,
                                                std::uint64_t card_bytes) {
  if (destination == Offer::waiting) return HostMover::destination;
  if (source == Offer::waiting) return HostMover::source;
  if (may_wait) return HostMover::none;
  if (destination == Offer::copier) return HostMover::destination;
  if (source == Offer::copier) return HostMover::source;
  return card_bytes < kMostBytesByCard ? HostMover::card : HostMover::none;
}

// True if a rank copies its own block itself in its first completion call. Only for blocks that are not mapped at both
// ends; otherwise one memcpy of the service process is cheaper. `others_can`: there is a copier, or XPMEM, or the
// service processes are on a DPU.
[[nodiscard]] constexpr bool rank_copies_own_block(std::uint64_t bytes, bool others_can) {
  return !others_can || bytes < kLeastBytesToLend;
}

// A rank that waits within this time after its last post waits at once. The time covers a program without work in
// between, and is an eighth of the copies' time on one core (at 5 GB/s). After a longer computation most copies are
// done, and help with a short rest costs more than it gains.
[[nodiscard]] constexpr std::chrono::nanoseconds at_once_after(std::uint64_t bytes) {
  constexpr std::uint64_t kBytesPerNs = 40;
  return std::chrono::microseconds(10) + std::chrono::nanoseconds(bytes / kBytesPerNs);
}

// A rank's wait, or the latest that began of several ranks'.
enum class Waits : std::uint8_t { no, at_once, late };

// Bytes left to copy from which on the help of ranks that have computed gains more than it costs. One core copies them
// in 0.1 to 0.2 ms.
inline constexpr std::uint64_t kLeastBytesForLateHelp = 1U << 20;

// True if the service process asks waiting ranks to copy. Beside copiers only while all wait: a computing rank may need
// the core. `left_bytes`: to be copied, by whomever.
[[nodiscard]] constexpr bool ranks_are_asked(Lenders lenders, Waits all, std::uint64_t left_bytes) {
  if (lenders != Lenders::copiers) return lenders == Lenders::waiting_ranks;
  return all == Waits::at_once || (all == Waits::late && left_bytes >= kLeastBytesForLateHelp);
}

// True if the core is lent by a sleep: where ranks compute, a yielded turn lasts milliseconds. Elsewhere a yield is
// cheaper.
[[nodiscard]] constexpr bool sleeps_while_lending(CoreShare share) {
  return share != CoreShare::own;
}

}  // namespace outrigger::copy
