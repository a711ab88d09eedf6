#include "mpi/collectives/post.hpp"

#include <sys/resource.h>

#include <atomic>

#include "base/no_cancellation.hpp"
#include "copy/policy.hpp"
#include "mpi/collectives/small_blocks.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/buffer_reach.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"
#include "mpi/report/report.hpp"
#include "mpi/trace/tracing.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::mpi {
namespace {

constexpr unsigned kWorthSaying = 10;  // percent of the time
constinit std::atomic<bool> said = false;

// Once, by the first rank of the communicator, and of all communicators only by those whose first rank is its node's.
void say_core_is_taken(const Job& job, const CommState& comm) {
  if (comm.me() != GroupRank{0} || job.local_rank != 0 || said.exchange(true, std::memory_order_relaxed)) return;
  const client::ClientStatistics statistics = job.client->statistics();
  const std::uint64_t wanted_ns = statistics.service_ran_ns + statistics.service_waited_ns;
  const auto percent = static_cast<unsigned>(wanted_ns == 0 ? 0 : statistics.service_waited_ns * 100 / wanted_ns);
  if (percent < kWorthSaying) {
    return print("other processes take the core of a service process; collectives go natively until it is free");
  }
  print(
      "other processes take the core of a service process, %u%% of the time that it needs it; collectives go natively "
      "until it is free",
      percent);
}

NativeReason reason_without_state(MPI_Comm comm) {
  if (is_group_of_one(comm)) return NativeReason::group_of_one;
  return is_intercommunicator(comm) ? NativeReason::intercommunicator : NativeReason::unknown_communicator;
}

void count(CommState& comm, const steer::Answer& native) {
  if (!observing()) return;
  native.lasts == steer::Lasts::for_good ? count_native_for_good(comm, native.reason) : count_native(native.reason);
}

// Every rank of the communicator comes here for each of its persistent collectives, in the same order.
Offload at_starts(CommState& comm, const steer::Call& call) {
  Offload offload;
  const Decision table = comm.dispatcher().by_table(call);
  if (!table.considered) return offload;
  const std::uint64_t ordinal = comm.next_persistent();
  if (const std::optional<steer::Answer> native = comm.dispatcher().by_rules(call, table)) {
    count(comm, *native);
    return offload;
  }
  offload.comm = &comm;
  offload.starts = Offload::Starts{call.key(), table, ordinal};
  return offload;
}

// unreachable: staged, for others cannot touch the buffer.
enum class Placement { mapped, private_memory, staged, small, unreachable };

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

// The buffer is not mapped, or has to be packed.
Placement place_unmapped(Job& job, const Operation& operation, Blocks& blocks, Access access) {
  // A rank that only contributes would not wait for the others, nor report that their counts differ.
  const bool in_pieces = operation.asked.reduction && !operation.asked.root && operation.comm->shape().nodes > 1 &&
                         operation.receive.total_bytes() != 0;
  const NoCancellation whole;  // some buffers are looked up in /proc
  Placement staged = Placement::staged;
  if (blocks.dense()) {
    if (travels_as_small_blocks(job, blocks, in_pieces)) {
      if (blocks.use_staging(*job.client)) return Placement::small;
      blocks.use_buffer();
    }
    if (job.client->reached_by(kReachCma)) {
      if (!only_the_rank_reaches(blocks, access)) return Placement::private_memory;
      staged = Placement::unreachable;
    }
  }
  if (!blocks.use_staging(*job.client)) no_staging(blocks.total_bytes(), "");
  return staged;
}

// Service processes touch the buffer itself where they can and that is worth it; else it goes through staging. Notes
// where the buffer is.
Placement place(Job& job, const Operation& operation, Blocks& blocks, client::SideMemory& memory, Access access) {
  if (!blocks.dense()) {
    memory.found_in = 0;
    return place_unmapped(job, operation, blocks, access);
  }
  blocks.use_buffer();
  job.client->find(blocks.layout(), operation.comm->size(), memory);
  if (memory.is_mapped()) return job.client->reached_by(kReachRdma) ? Placement::private_memory : Placement::mapped;
  const Placement placement = place_unmapped(job, operation, blocks, access);
  if (blocks.staged()) memory.found_in = 0;
  return placement;
}

Offload decide_on(const Job& job, CommState& comm, const steer::Call& call) {
  const steer::Answer answer = comm.dispatcher().decide(call);
  if (answer.way == steer::Way::offloaded) return {.comm = &comm, .answer = answer, .block_bytes = call.block_bytes};
  if (answer.reason == NativeReason::service_core_taken) say_core_is_taken(job, comm);
  count(comm, answer);
  if (call.block_bytes) comm.count_native_call(*job.client);
  return {.native_on = &comm, .answer = answer};
}

bool is_at_root(const Operation& operation) {
  return operation.asked.root == operation.comm->me().value();
}

// True if the rank sends itself a block. In a broadcast it is in place already; a reduction has no such block.
bool has_own_block(const Operation& operation) {
  if (operation.in_place || operation.asked.reduction || operation.asked.collective == Collective::ibcast) return false;
  return !operation.asked.root || is_at_root(operation);
}

// Bytes behind a block that is shorter than its room keep their contents, and so does the first rank's buffer in an
// exscan. A result of another reduction fills its room.
bool may_leave_bytes(const client::OperationRequest& asked) {
  return !asked.reduction || asked.collective == Collective::iexscan;
}

bool copies_own_block(const Job& job, const Operation& operation) {
  const bool others_can = job.client->lending().copier_runs() || job.client->reached_by(kReachXpmem | kReachRdma);
  return copy::rank_copies_own_block(pair_with(operation.send, operation.comm->me().value()).bytes, others_can);
}

// The receive buffer is also the source. A copy is sent, so that ranks do not wait for each other and a replay can read
// it again.
void stage_in_place(Job& job, Operation& operation) {
  const NoCancellation whole;
  operation.asked.send_memory.found_in = 0;
  if (!operation.send.use_staging(*job.client)) no_staging(operation.send.total_bytes(), " in place");
  operation.send.copy(Packing::pack, job.packing_comm, block_in_place(operation));
}

}  // namespace

Offload offload_on(const Job& job, Form form, MPI_Comm comm, Collective collective,
                   const std::optional<std::uint64_t>& block_bytes, NativeReason obstacle) {
  const steer::Call call{form_of(collective, form), block_bytes, obstacle};
  CommState* state = state_of(job, comm);
  if (state == nullptr) {
    const Decision table = job.config.selection.decide(call.form.blocking, collective, GroupShape{}, block_bytes);
    if (table.considered && observing()) count_native(reason_without_state(comm));
    return {};
  }
  return form == Form::persistent ? at_starts(*state, call) : decide_on(job, *state, call);
}

steer::Answer decide_start(const Job& job, CommState& comm, steer::CallKey key, const Decision& table) {
  const steer::Answer answer = comm.dispatcher().decide_start(key, table);
  if (answer.reason == NativeReason::service_core_taken) say_core_is_taken(job, comm);
  return answer;
}

Again offload_again(Job& job, const CallWords& words, MPI_Request* request) {
  Operation* const operation = request == nullptr ? nullptr : take_described(words);
  if (operation == nullptr) return Again::unknown;
  CallTimer timer(CallTimer::Kind::post);
  const steer::CollectiveForm form = form_of(operation->asked.collective, Form::nonblocking);
  const Offload offload = decide_on(job, *operation->described_on, {form, operation->block_bytes});
  if (offload.comm == nullptr) {
    give_back(*operation);
    return Again::native;
  }
  operation->comm = offload.comm;
  operation->asked.algorithm = offload.answer.algorithm;
  operation->asked.by_plan = offload.answer.by_plan;
  timer.belongs_to(*operation);
  post_operation(job, *operation);
  *request = operation->request;
  return Again::offloaded;
}

void note_described(const CallWords& words, MPI_Request request) {
  const OperationHold operation = find_request(request);
  if (!operation || operation->asked.reduction || !operation->send.plain() || !operation->receive.plain()) return;
  operation->described_by = words;
  operation->described_on = operation->comm;
}

void count_native_for_good(CommState& comm, NativeReason reason) {
  const bool is_off = reason != NativeReason::none && comm.dispatcher().off();
  count_native(is_off ? NativeReason::switched_off : reason);
}

[[gnu::flatten]] void post_operation(Job& job, Operation& operation) {
  const Placement receive = place(job, operation, operation.receive, operation.asked.receive_memory, Access::write);
  if (receive == Placement::staged && !operation.receive.dense()) operation.receive.keep_type();
  if ((receive == Placement::small || receive == Placement::unreachable) && may_leave_bytes(operation.asked))
    operation.receive.copy(Packing::pack, job.packing_comm, operation.receive.peers());
  if (operation.source_overwritten) {
    stage_in_place(job, operation);
  } else {
    const Placement send = place(job, operation, operation.send, operation.asked.send_memory, Access::read);
    if (operation.send.staged()) {
      operation.send.copy(Packing::pack, job.packing_comm, operation.send.peers());
    }
    const bool mapped = send != Placement::private_memory && receive != Placement::private_memory;
    const bool is_small = send == Placement::small || receive == Placement::small;
    operation.copies_own_block =
        (is_small || !mapped) && has_own_block(operation) && (is_small || copies_own_block(job, operation));
  }
  // In place, and at the root of a broadcast, the own block is there already.
  const bool is_there =
      operation.in_place || (operation.asked.collective == Collective::ibcast && is_at_root(operation));
  operation.asked.own_block_done = !operation.asked.reduction && (operation.copies_own_block || is_there);
  if (counting()) count_post(operation);
  const std::uint64_t sequence = operation.comm->next_sequence();
  launch(job, operation, sequence);
  if (tracing()) trace_post(operation, sequence);
}

}  // namespace outrigger::mpi
