// Hosts and DPUs may have processors of different kinds and read each other's data. Every build, for any processor,
// must have the layout in layout.txt: fields of structs that are sent or shared, and messages byte by byte. A change of
// these needs a higher kProtocolVersion (build_version.hpp) or peer::kVersion.
#include "layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "../steer/some_plan.hpp"
#include "protocol/build_version.hpp"
#include "protocol/shared/exported_memory.hpp"
#include "protocol/shared/segment.hpp"
#include "protocol/wire/control.hpp"
#include "protocol/wire/dpu_figures.hpp"
#include "protocol/wire/dpu_link.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/node_news.hpp"
#include "protocol/wire/peer_messages.hpp"
#include "protocol/wire/rank_address.hpp"
#include "protocol/wire/rank_message.hpp"
#include "protocol/wire/wire_messages.hpp"
#include "steer/coordinator/messages.hpp"

namespace outrigger {
namespace {

// Bytes between fields would be sent uninitialized.
template <class... Sent>
constexpr bool without_gaps() {
  return (std::has_unique_object_representations_v<Sent> && ...);
}
static_assert(
    without_gaps<HelloBody, WelcomeBody, RefusedBody, RegionBody, RegionAddedBody, ConfigureBody, PeerRingBody,
                 PeerMovedBody, PeerBody, RankJoinedBody, RankAttachedBody, RankBody, RankLeftBody, SharedBytesBody,
                 RankRemoteBody, RankWiredBody, JobMapTakenBody, FaultReportBody, ControlHeader>());
static_assert(without_gaps<DpuJob, DpuReady, DpuLost, DpuTraced, DpuTraceAsk, DpuTraceTold, DpuFiguresAsk,
                           TakePlaceBody, RankMessage, LocalRef, SlotLayout, SlotRequestBody, SlotResult, KeyEntry,
                           WireRoute, PairExtent, CopyJob>());

std::string control_messages() {
  return OUTRIGGER_LAYOUT(ControlHeader, magic, version, kind, body_bytes) +
         OUTRIGGER_LAYOUT(HelloBody, secret, world_rank, world_size, local_rank, local_size, probe_address, probe_value,
                          xpmem_segment, affinity) +
         OUTRIGGER_LAYOUT(WelcomeBody, sp, sp_count, reach, cpu, core_share, other_job) +
         OUTRIGGER_LAYOUT(RefusedBody, reason) + OUTRIGGER_LAYOUT(RegionBody, world_rank, region, base, bytes) +
         OUTRIGGER_LAYOUT(RegionAddedBody, world_rank, region, ok, reserved) +
         OUTRIGGER_LAYOUT(ConfigureBody, sp, sp_count, world_size, local_size, cpu, core_share, reach_allowed, epoch,
                          nodes, elsewhere, cache_bytes, attach_limit_ms, process, instead_of_dpu, traced, dpu_secret,
                          transports) +
         OUTRIGGER_LAYOUT(TakePlaceBody, sp, epoch, cpu, reserved) +
         OUTRIGGER_LAYOUT(CoreShareBody, core_share, other_job) + OUTRIGGER_LAYOUT(PeerRingBody, sp, epoch) +
         OUTRIGGER_LAYOUT(PeerMovedBody, sp, epoch, bytes) + OUTRIGGER_LAYOUT(PeerBody, sp, epoch) +
         OUTRIGGER_LAYOUT(IntroducedBody, running, reserved) +
         OUTRIGGER_LAYOUT(RankJoinedBody, world_rank, sp, pid, reach, probe_address, probe_value, xpmem_segment) +
         OUTRIGGER_LAYOUT(RankAttachedBody, world_rank, reach) + OUTRIGGER_LAYOUT(RankBody, world_rank, reserved) +
         OUTRIGGER_LAYOUT(RankLeftBody, world_rank, sp) + OUTRIGGER_LAYOUT(SharedBytesBody, bytes, node, reserved) +
         OUTRIGGER_LAYOUT(RankRemoteBody, world_rank, sp, bytes) +
         OUTRIGGER_LAYOUT(RankWiredBody, world_rank, ok, reason) + OUTRIGGER_LAYOUT(JobMapTakenBody, ok, reason) +
         OUTRIGGER_LAYOUT(FaultReportBody, world_rank, reason) +
         OUTRIGGER_LAYOUT(DpuJob, local_size, services, attach_limit_ms) +
         OUTRIGGER_LAYOUT(DpuReady, services, reserved, name) +
         OUTRIGGER_LAYOUT(DpuLost, killed, has_taken, group_high, group_low, sequence, how) +
         OUTRIGGER_LAYOUT(DpuTraced, world_rank, reserved) + OUTRIGGER_LAYOUT(DpuTraceAsk, number, events, reserved) +
         OUTRIGGER_LAYOUT(DpuTraceTold, number, at_ns, more, noted) + OUTRIGGER_LAYOUT(DpuFiguresAsk, number) +
         OUTRIGGER_LAYOUT(RankMessage, what, process, world_rank);
}

std::string memory_of_a_rank() {
  return OUTRIGGER_LAYOUT(SegmentHeader, magic, version, world_rank, world_size, slot_count, ring_offset, slots_offset,
                          arena_offset, arena_bytes, segment_bytes, ring_tail, rank_sleeping, rank_base_address,
                          rank_quiet, overflow_tail, overflow_first_address, overflow_first_region, groups_used,
                          groups_unlisted, rank_lends, rank_lends_turns, copier_lends, completions, service_sleeping,
                          ring_head, overflow_taken, service_restarts, awaited_post, service_ran_ns, service_waited_ns,
                          service_other_job, proofs, wire_route_count, wire_routes, fatal, warned, fatal_text,
                          dpu_process, dpu_calls, copies) +
         OUTRIGGER_LAYOUT(OperationSlot, state, position, result, body) +
         OUTRIGGER_LAYOUT(OverflowRecord, operation, next, number, reserved) +
         OUTRIGGER_LAYOUT(SlotRequestBody, request, collective, algorithm, plan, flags, root, group_high, group_low,
                          sequence, digest, group_size, group_rank, members, marks, send, receive, reduce_operation,
                          element_type, native_calls) +
         OUTRIGGER_LAYOUT(SlotResult, status, late_announcements, bytes_by_reach, done_ns, late_ns, passed_by,
                          reserved) +
         OUTRIGGER_LAYOUT(SlotLayout, base, stride_bytes, block_bytes, extents) +
         OUTRIGGER_LAYOUT(LocalRef, region, count, address) + OUTRIGGER_LAYOUT(PairExtent, offset_bytes, bytes) +
         OUTRIGGER_LAYOUT(NeighborExtent, block, rank, reserved) +
         OUTRIGGER_LAYOUT(steer::PlanEntry, calls, lost_ns, passed_ns, held, changes, plans) +
         OUTRIGGER_LAYOUT(steer::PlanEntry::Plan, from, before, after) +
         OUTRIGGER_LAYOUT(GroupEntry, state, generation, group_high, group_low, group_size, group_rank, members, plan,
                          reserved, done_below) +
         OUTRIGGER_LAYOUT(NativeCallsEntry, group_high, group_low, word) +
         OUTRIGGER_LAYOUT(KeyEntry, region, key_bytes, export_bytes, reserved, base, bytes, key) +
         OUTRIGGER_LAYOUT(WireRoute, moves_memory, transports) +
         OUTRIGGER_LAYOUT(CopyQueue, wanted, given, service_waits, asked, recalled, taken, events, bell, copier_sleeps,
                          copier_tid, copier_has, hands, rank_waits, copier_away, copier_holds, copier_ran_ns,
                          copier_busy_since, ranks_alone, rank_waits_late, jobs, results) +
         "segment: ring " + std::to_string(SegmentView::ring_offset()) + ", slots " +
         std::to_string(SegmentView::slots_offset()) + ", keys " + std::to_string(SegmentView::keys_offset()) +
         ", groups " + std::to_string(SegmentView::groups_offset()) + ", native calls " +
         std::to_string(SegmentView::native_calls_offset()) + ", arena " + std::to_string(SegmentView::arena_offset()) +
         ", end " + std::to_string(SegmentView::segment_bytes()) + "\n";
}

// Byte i is `first` + i.
std::vector<std::byte> counted(std::size_t bytes, unsigned first) {
  std::vector<std::byte> result;
  for (std::size_t i = 0; i < bytes; ++i) result.push_back(static_cast<std::byte>(first + i));
  return result;
}

Secret some_secret() {
  Secret secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::uint8_t>(0xA0 + i);
  return secret;
}

OperationId some_operation() {
  return OperationId{GroupId{0x0102030405060708, 0x1112131415161718}, 0x2122232425262728};
}

std::string line_of(const std::string& name, const peer::Body& body) {
  std::vector<std::byte> bytes;
  encode(peer::Message{peer::Header{Epoch{0x31323334}, Epoch{0x41424344}, some_operation()}, body}, bytes);
  return line_of_bytes(name, bytes);
}
std::string line_of(const std::string& name, const steer::Body& body) {
  std::vector<std::byte> bytes;
  encode(steer::Message{peer::Header{Epoch{0x31323334}, Epoch{0x41424344}, some_operation()}, body}, bytes);
  return line_of_bytes(name, bytes);
}

peer::Announce some_announcement() {
  peer::Announce announce;
  announce.side = peer::Side::receive;
  announce.again = true;
  announce.rank = WorldRank{0x51525354};
  announce.group_rank = GroupRank{0x61626364};
  announce.collective = Collective::iallgatherv;
  announce.algorithm = Algorithm::node_pull;
  announce.root = 0x71727374;
  announce.digest = 0x0203040506070809;
  announce.region = RegionId{0x12131415};
  announce.base = 0x2324252627282930;
  announce.stride_bytes = -2;
  announce.block_bytes = 0x3334353637383940;
  announce.members = 9;
  announce.first = 3;
  announce.count = 2;
  return announce;
}

std::string messages_of_service_processes() {
  constexpr GroupRank source{0x01020304};
  constexpr GroupRank destination{0x11121314};
  peer::Announce irregular = some_announcement();
  irregular.extents = {PairExtent{-5, 0x4142434445464748}, PairExtent{6, peer::kSettled}};
  return line_of("announce", some_announcement()) + line_of("announce, irregular", irregular) +
         line_of("delivered", peer::Delivered{source, destination, Epoch{7}, CompletionStatus::truncated, Reach::rdma,
                                              0x5152535455565758, 0x6162636465666768}) +
         line_of("release", peer::Release{source, destination, CompletionStatus::peer_lost}) +
         line_of("finished", peer::Finished{WorldRank{0x21222324}, CompletionStatus::mismatch}) +
         line_of("refusal", peer::Refusal{source, destination}) +
         line_of("replica request", peer::ReplicaRequest{source, 5, 0x7172737475767778}) +
         line_of("replica answer", peer::ReplicaAnswer{source, 5, peer::Where::here, SpId{6}, destination, RegionId{8},
                                                       0x0102030405060708, 0x1112131415161718}) +
         line_of("replica done", peer::ReplicaDone{source, 5}) + line_of("quiesce", peer::Quiesce{true}) +
         line_of("vote", steer::Vote{steer::Suspended{0x01020304, 0x05060708}}) + line_of("hold", steer::Hold{}) +
         line_of("held", steer::Held{true, 5, 0x0102030405060708}) +
         line_of("resume", steer::Resume{true, steer::PlanChange{0x0102030405060708,
                                                                 steer::DispatchPlan{steer::Suspended{1, 2}, {}, {}},
                                                                 steer::some_plan()}}) +
         line_of("measured", steer::Measured{0x0506, steer::some_times()}) +
         line_of("overdue", peer::Overdue{0x01020304});
}

std::string messages_on_the_wire() {
  wire::Header header;
  header.kind = wire::Kind::push;
  header.status = 2;
  header.from = SpId{0x01020304};
  header.move = 0x1122334455667788;
  header.offset = 0x2233445566778899;
  header.bytes = 0x01020;
  header.memory = MemoryRef{WorldRank{0x0A0B0C0D}, RegionId{0x0E0F1011}, 0xFFEEDDCCBBAA9988};
  std::vector<std::byte> batch;
  const std::vector<std::byte> payload = counted(3, 0xC0);
  append(batch, wire::Framed{header, payload});
  const BlockId block{some_operation(), GroupRank{0x31323334}, GroupRank{0x41424344}};
  return line_of_bytes("wire header", encoded(header)) + line_of_bytes("batch", batch) +
         line_of_bytes("block", encoded(block));
}

std::string addresses() {
  NodeDescriptor descriptor;
  descriptor.name = "thor";
  descriptor.secret = some_secret();
  descriptor.addresses = {counted(3, 1), counted(5, 0x10)};
  descriptor.ranks = {RankAssignment{WorldRank{0x01020304}, 1}, RankAssignment{WorldRank{0x11121314}, 0}};
  descriptor.keeper.port = 0x0102;
  descriptor.keeper.addresses = {{0x61, 0x62, 0x63}};
  std::vector<std::byte> bytes;
  encode_descriptor(descriptor, bytes);
  const NodeNews news{NodeNewsKind::moved, 0x01020304, SpId{0x11121314}, Epoch{0x21222324}, counted(3, 0x31)};
  RankAddress address;
  address.segment_base = 0x0102030405060708;
  address.machine = 0x1112131415161718;
  address.worker = counted(5, 0x20);
  address.segment_key = counted(3, 0x30);
  address.process = {0x61626364, 0x7172737475767778, 0x0182838485868788};
  const std::vector<std::byte> without_trial = encoded(address);
  address.trial = ExportTrial{0x2122232425262728, counted(2, 0x40), counted(7, 0x50)};
  return line_of_bytes("descriptor", bytes) + line_of_bytes("news of a node", encoded(news)) +
         line_of_bytes("rank address", without_trial) + line_of_bytes("rank address with a trial", encoded(address));
}

std::string layout() {
  return "versions: " + std::to_string(kProtocolVersion) + ", " + std::to_string(peer::kVersion) + "\n" +
         control_messages() + memory_of_a_rank() +
         line_of_bytes("control message", encode_control(ControlKind::rank_attached, RankAttachedBody{5, kReachRdma})) +
         line_of_bytes("frame", encoded(DpuFrame{DpuFrameKind::lost, 6, counted(3, 1), counted(2, 9)})) +
         line_of_bytes("figures of a DPU",
                       encoded(DpuFigures{0x0102030405060708, 9, 10, {{7, 0x1112131415161718, 3}}})) +
         messages_of_service_processes() + messages_on_the_wire() + addresses();
}

std::vector<std::string> lines(std::istream& from) {
  std::vector<std::string> result;
  for (std::string line; std::getline(from, line);) result.push_back(line);
  return result;
}

TEST(Layout, IsTheSameOnEveryProcessor) {
  std::ifstream file(OUTRIGGER_LAYOUT_FILE);
  ASSERT_TRUE(file) << OUTRIGGER_LAYOUT_FILE;
  const std::vector<std::string> agreed = lines(file);
  std::istringstream here(layout());
  const std::vector<std::string> built = lines(here);
  EXPECT_EQ(built.size(), agreed.size()) << "Of this build:\n" << here.str();
  for (std::size_t i = 0; i < std::min(built.size(), agreed.size()); ++i) EXPECT_EQ(built[i], agreed[i]);
}

}  // namespace
}  // namespace outrigger
