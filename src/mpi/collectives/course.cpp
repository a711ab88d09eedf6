#include "mpi/collectives/course.hpp"

#include <atomic>

#include "mpi/job/job.hpp"
#include "mpi/native/message.hpp"

namespace outrigger::mpi {
namespace {

constexpr unsigned kWorthSaying = 10;  // percent of the time
constinit std::atomic<bool> said = false;

// Once, by the first rank of the communicator, and of all communicators only by those whose first rank is its node's.
void say_taken(const Job& job, const CommState& comm) {
  if (comm.me() != GroupRank{0} || job.local_rank != 0 || said.exchange(true, std::memory_order_relaxed)) return;
  const client::Client::Statistics statistics = job.client->statistics();
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

NativeReason reason_of(const Job& job, const CommState& comm, const steer::Suspended& suspended,
                       Collective collective) {
  if (suspended.failing) return NativeReason::services_died;
  if ((suspended.busy & steer::Suspended::bit(collective)) == 0) return NativeReason::small_blocks;
  say_taken(job, comm);
  return NativeReason::service_core_taken;
}

}  // namespace

Steered ask_course(const Job& job, CommState& comm, steer::CallKey key, const Decision& table, bool counted) {
  CommCalls& calls = comm.calls();
  if (const NativeReason retired = calls.retired(key); retired != NativeReason::none) return Steered{retired};
  const steer::Method usual =
      table.algorithm && !job.native_at_first ? steer::Method::by(*table.algorithm) : steer::Method::native();
  const auto by_table = [&] {
    if (!usual.is_native()) return Steered{NativeReason::none, *usual.algorithm()};
    return Steered{table.algorithm ? NativeReason::not_tried : NativeReason::small_blocks};
  };
  // Small blocks by a service process beside the ranks: to wake it costs more than the operation, and so would a trial.
  const bool cannot_win = !table.algorithm && job.native_at_first;
  if (usual.is_native() && (!job.config.measured_choice || cannot_win)) {
    table.algorithm ? calls.retire(key) : calls.retire_small(key);
    return by_table();
  }
  if (usual.is_native() && calls.too_few_to_steer()) return by_table();
  const client::Group* group = comm.known_group(*job.client);
  client::Courses courses = job.client->courses();
  const steer::DispatchPlan* course = group == nullptr ? nullptr : courses.next(*group, counted);
  if (course == nullptr) return by_table();
  const steer::Step step = calls.next(courses, *group, *course, key);
  if (job.config.measured_choice && comm.me() == GroupRank{0}) {
    calls.maybe_ask(courses, *group, {key, usual, table.if_offloaded, 0}, comm.shape(), *job.decisions,
                    job.config.early_trials);
  }
  Steered steered = !step.method               ? by_table()
                    : step.method->is_native() ? Steered{NativeReason::measured_choice}
                                               : Steered{NativeReason::none, *step.method->algorithm()};
  if (step.suspended && steered.native == NativeReason::none) {
    steered.native = reason_of(job, comm, course->suspended, key.collective());
  }
  const bool posts = steered.native == NativeReason::none;
  if (posts) comm.forget_larger_blocks(key.collective());
  if (calls.join() && !posts) courses.join(*group);
  // Not for what sizes could show to be wrong.
  const bool is_native = steered.native == NativeReason::measured_choice || steered.native == NativeReason::not_tried ||
                         (!key.without_sizes() && steered.native == NativeReason::small_blocks && !step.suspended);
  if (is_native && !course->trial.under_way()) {
    calls.begin_spell(courses, *group, *course, key, comm.me() == GroupRank{0}, steered.native);
    steered.for_a_spell = true;
  }
  return steered;
}

bool services_fail(const Job& job, CommState& comm, bool counted) {
  const client::Group* group = comm.known_group(*job.client);
  const steer::DispatchPlan* course = group == nullptr ? nullptr : job.client->courses().next(*group, counted);
  return course != nullptr && course->suspended.failing;
}

void note_largest_block(const Job& job, CommState& comm, Collective collective, std::uint64_t bytes) {
  if (bytes <= kSmallBlockBytes || !comm.note_larger_blocks(collective)) return;
  if (const client::Group* group = comm.known_group(*job.client))
    job.client->courses().tell_of_larger_blocks(*group, collective);
}

}  // namespace outrigger::mpi
