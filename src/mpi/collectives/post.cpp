#include "mpi/collectives/post.hpp"

#include <sys/resource.h>

#include "base/no_cancellation.hpp"
#include "copy/policy.hpp"
#include "mpi/collectives/course.hpp"
#include "mpi/collectives/small_blocks.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/buffer_reach.hpp"
#include "mpi/native/die.hpp"
#include "mpi/report/report.hpp"
#include "mpi/trace/tracing.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::mpi {
namespace {

NativeReason why_native(CommState* comm, MPI_Comm handle) {
  if (comm == nullptr) {
    if (is_group_of_one(handle)) return NativeReason::group_of_one;
    return is_intercommunicator(handle) ? NativeReason::intercommunicator : NativeReason::unknown_communicator;
  }
  if (comm->size() == 1) return NativeReason::group_of_one;
  if (comm->size() > kMaxGroupSize) return NativeReason::group_too_large;
  if (comm->by_program().off()) return NativeReason::switched_off;
  return NativeReason::none;
}

Decision decide(const Job& job, CommState* comm, steer::CollectiveForm form,
                const std::optional<std::uint64_t>& block_bytes) {
  static constexpr GroupShape kUnknown{};
  const auto by_table = [&] {
    return job.config.selection.decide(form.blocking, form.collective, comm == nullptr ? kUnknown : comm->shape(),
                                       block_bytes);
  };
  if (comm == nullptr || block_bytes) return by_table();
  std::optional<Decision>& known = comm->calls().without_sizes(form);
  if (!known) known = by_table();
  return *known;
}

// unreachable: staged, for others cannot touch the buffer.
enum class Placement { mapped, private_memory, staged, small, unreachable };

// All blocks lie in one range that the service processes map.
bool is_mapped(const client::Client& client, const Blocks& blocks) {
  const client::BufferLayout& layout = blocks.layout();
  const std::optional<OffsetRange> range = layout.range(blocks.peers());
  if (!range) return false;
  return range->empty() || client.region_of(address_of(layout.base, range->low), range->bytes()) != kPrivateRegion;
}

// Memory that others map takes a descriptor, here and in the keeper, whose limit is this process's hard one.
[[noreturn]] void no_staging(std::uint64_t bytes, const char* how) {
  constexpr rlim_t kFew = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < kFew) {
    die("no file descriptors left for memory to stage %llu bytes of a collective%s (limit %llu); raise ulimit -n",
        static_cast<unsigned long long>(bytes), how, static_cast<unsigned long long>(limit.rlim_max));
  }
  die("no memory left to stage %llu bytes of a collective%s", static_cast<unsigned long long>(bytes), how);
}

// Service processes touch the buffer itself where they can and that is worth it; else it goes through staging.
Placement place(Job& job, Blocks& blocks, Access access) {
  Placement staged = Placement::staged;
  if (blocks.dense()) {
    blocks.use_buffer();
    const bool mapped = is_mapped(*job.client, blocks);
    if (!mapped && travels_as_small_blocks(job, blocks)) {
      if (blocks.use_staging(*job.client)) return Placement::small;
      blocks.use_buffer();
    }
    if (mapped) return job.client->reached_by(kReachRdma) ? Placement::private_memory : Placement::mapped;
    if (job.client->reached_by(kReachCma)) {
      if (!only_the_rank_reaches(blocks, access)) return Placement::private_memory;
      staged = Placement::unreachable;
    }
  }
  if (!blocks.use_staging(*job.client)) no_staging(blocks.total_bytes(), "");
  return staged;
}

bool is_at_root(const Operation& operation) {
  return operation.root == operation.comm->me().value();
}

// Does the rank send itself something? Of a broadcast it is there already, of a reduction there is no such block.
bool has_own_block(const Operation& operation) {
  if (operation.in_place || operation.reduction || operation.collective == Collective::ibcast) return false;
  return !operation.root || is_at_root(operation);
}

bool copies_own_block(const Job& job, const Operation& operation) {
  const bool others_can = job.client->copier() || job.client->reached_by(kReachXpmem | kReachRdma);
  return copy::rank_copies_own_block(pair_with(operation.send, operation.comm->me().value()).bytes, others_can);
}

// The receive buffer is also the source: it is copied away, so that nobody waits for anybody and it can be read again.
void stage_in_place(Job& job, Operation& operation) {
  if (!operation.send.use_staging(*job.client)) no_staging(operation.send.total_bytes(), " in place");
  operation.send.copy(Packing::pack, job.packing_comm, block_in_place(operation));
}

Offload never(CommState& comm, NativeReason reason) {
  if (observing()) count_native_for_good(comm, reason);
  Offload offload;
  offload.for_good = &comm;
  offload.reason = reason;
  return offload;
}

Offload by_way(CommState& comm, Algorithm algorithm, bool by_plan) {
  Offload offload;
  offload.comm = &comm;
  offload.algorithm = algorithm;
  offload.by_plan = by_plan;
  return offload;
}

// Also of ranks that count nothing, which do not come here with calls that are native for good.
bool may_be_offloaded(const Job& job, CommState& comm, steer::CallKey key, const Decision& decision,
                      NativeReason obstacle) {
  if (obstacle != NativeReason::none || comm.calls().retired(key) != NativeReason::none) return false;
  return decision.algorithm || !(decision.by_user || job.native_at_first);
}

// Every rank of the communicator comes here for each of its persistent collectives, in the same order.
Offload at_starts(CommState* comm, NativeReason reason, steer::CallKey key, const Decision& table) {
  Offload offload;
  const std::uint64_t ordinal = comm == nullptr ? 0 : comm->next_persistent();
  const bool never = table.by_user && !table.algorithm;
  if (reason == NativeReason::none && never) reason = NativeReason::users_rule;
  if (reason != NativeReason::none) {
    if (observing()) count_native(reason);
    return offload;
  }
  offload.comm = comm;
  offload.starts = Offload::Starts{key, table, ordinal};
  return offload;
}

Offload choose(const Job& job, Form form, CommState* state, MPI_Comm comm, Collective collective,
               const std::optional<std::uint64_t>& block_bytes, bool counted, NativeReason obstacle) {
  const bool blocking = form == Form::blocking;
  const bool may_pass = state != nullptr && form != Form::persistent;
  const steer::CallKey key = steer::CallKey::of(collective, blocking, block_bytes);
  if (state != nullptr && form != Form::persistent && state->calls().take_counted()) counted = true;
  const NativeReason retired = may_pass ? state->calls().retired(key) : NativeReason::none;
  if (retired != NativeReason::none) return never(*state, retired);
  const Decision decision = decide(job, state, {collective, blocking}, block_bytes);
  if (!decision.considered) return may_pass ? never(*state, NativeReason::none) : Offload{};
  const NativeReason of_comm = why_native(state, comm);
  if (obstacle == NativeReason::rounding && decision.by_user) obstacle = NativeReason::none;
  if (obstacle != NativeReason::none && may_pass) {
    const bool for_good = of_comm != NativeReason::none && of_comm != NativeReason::switched_off;
    return never(*state, for_good ? of_comm : obstacle);
  }
  if (of_comm == NativeReason::switched_off && may_be_offloaded(job, *state, key, decision, obstacle)) {
    state->by_program().count();
  }
  NativeReason reason = of_comm != NativeReason::none ? of_comm : obstacle;
  Offload native;
  if (form == Form::persistent) return at_starts(state, reason, key, decision);
  if (reason == NativeReason::none && decision.by_user) {
    if (!decision.algorithm && may_pass) return never(*state, NativeReason::users_rule);
    if (decision.algorithm && !services_fail(job, *state, counted)) return by_way(*state, *decision.algorithm, false);
    reason = decision.algorithm ? NativeReason::services_died : NativeReason::users_rule;
  } else if (reason == NativeReason::none) {
    const Steered steered = ask_course(job, *state, key, decision, counted);
    if (steered.native == NativeReason::none) return by_way(*state, steered.algorithm, true);
    reason = steered.native;
    if (steered.for_a_spell) native.for_a_spell = state;
  }
  if (observing()) count_native(reason);
  native.reason = reason;
  if (reason == NativeReason::small_blocks) native.for_small_blocks = state;
  return native;
}

}  // namespace

Offload offload_on(const Job& job, Form form, MPI_Comm comm, Collective collective,
                   const std::optional<std::uint64_t>& block_bytes, bool counted, NativeReason obstacle) {
  CommState* state = state_of(job, comm);
  const Offload offload = choose(job, form, state, comm, collective, block_bytes, counted, obstacle);
  const bool is_native = offload.comm == nullptr && form != Form::persistent;
  if (is_native && state != nullptr && block_bytes) state->count_native_call(*job.client);
  return offload;
}

void count_native_for_good(CommState& comm, NativeReason reason) {
  const bool is_off = reason != NativeReason::none && comm.by_program().off();
  count_native(is_off ? NativeReason::switched_off : reason);
}

void post_operation(Job& job, Operation& operation) {
  const NoCancellation whole;  // some buffers are looked up in /proc
  const Placement receive = place(job, operation.receive, Access::write);
  if (receive == Placement::staged && !operation.receive.dense()) operation.receive.keep_type();
  // Of a block that turns out to be shorter than its room, the rest is to stay as it is.
  if (receive == Placement::small || receive == Placement::unreachable)
    operation.receive.copy(Packing::pack, job.packing_comm, operation.receive.peers());
  if (operation.source_overwritten) {
    stage_in_place(job, operation);
  } else {
    const Placement send = place(job, operation.send, Access::read);
    if (operation.send.staged()) {
      operation.send.copy(Packing::pack, job.packing_comm, operation.send.peers());
    }
    const bool mapped = send != Placement::private_memory && receive != Placement::private_memory;
    const bool is_small = send == Placement::small || receive == Placement::small;
    operation.copies_own_block =
        has_own_block(operation) && (is_small || (!mapped && copies_own_block(job, operation)));
  }
  // In place, and at the root of a broadcast, it is there already.
  const bool is_there = operation.in_place || (operation.collective == Collective::ibcast && is_at_root(operation));
  operation.own_block_by_rank = !operation.reduction && (operation.copies_own_block || is_there);
  if (counting()) count_post(operation);
  const std::uint64_t sequence = operation.comm->next_sequence();
  launch(job, operation, sequence);
  if (tracing()) trace_post(operation, sequence);
}

}  // namespace outrigger::mpi
