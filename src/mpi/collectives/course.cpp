#include "mpi/collectives/course.hpp"

#include <atomic>
#include <memory>

#include "mpi/native/message.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

constexpr unsigned kWorthSaying = 10;  // percent of the time
constinit std::atomic<bool> said = false;

// Once, by one rank of the communicator.
void say_taken(const Job& job, const CommState& comm) {
  if (comm.me() != GroupRank{0} || said.exchange(true, std::memory_order_relaxed)) return;
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

NativeReason reason_of(const Job& job, const CommState& comm, const Suspended& suspended, Collective collective) {
  if ((suspended.busy & Suspended::bit(collective)) == 0) return NativeReason::small_blocks;
  say_taken(job, comm);
  return NativeReason::service_core_taken;
}

Steered by_way(Way way, NativeReason if_native) {
  const std::optional<Algorithm> algorithm = way.algorithm();
  return algorithm ? Steered{NativeReason::none, *algorithm} : Steered{if_native};
}

}  // namespace

Steered ask_course(const Job& job, CommState& comm, CallKey key, const Decision& table) {
  CommCalls& calls = comm.calls();
  if (calls.retired(key)) {
    if (job.native_cores != nullptr) job.native_cores->native_call(&comm, false);
    return {NativeReason::measured_choice};
  }
  const Steered by_table =
      by_way(Way{table.algorithm ? Way::by(*table.algorithm) : Way::native()}, NativeReason::small_blocks);
  if (!table.algorithm && (!job.config.measured_choice || (!comm.has_group() && calls.too_few_to_steer()))) {
    return by_table;
  }
  const std::shared_ptr<const client::Group> group = comm.group(*job.client);
  client::Courses courses = job.client->courses();
  const Course* course = group == nullptr ? nullptr : courses.next(*group);
  if (course == nullptr) return by_table;
  const client::Step step = calls.next(courses, *group, *course, key);
  if (job.config.measured_choice && comm.me() == GroupRank{0}) {
    calls.maybe_ask(courses, *group,
                    {key, table.algorithm ? Way::by(*table.algorithm) : Way::native(), table.if_offloaded, 0});
  }
  const Collective collective = key.collective();
  Steered steered = step.way ? by_way(*step.way, NativeReason::measured_choice) : by_table;
  if (step.suspended && steered.native == NativeReason::none) {
    steered.native = reason_of(job, comm, course->suspended, collective);
  }
  if (steered.native == NativeReason::none) {
    comm.forget_larger_blocks(collective);
  }
  const bool posts = steered.native == NativeReason::none;
  if (calls.join() && !posts) courses.join(*group);
  if (job.native_cores != nullptr && steered.native == NativeReason::measured_choice) {
    job.native_cores->native_call(&comm, calls.trying());
  }
  return steered;
}

void note_largest_block(const Job& job, CommState& comm, Collective collective, std::uint64_t bytes) {
  if (bytes <= kSmallBlockBytes || !comm.note_larger_blocks(collective)) return;
  if (const auto group = comm.group(*job.client)) job.client->courses().tell_of_larger_blocks(*group, collective);
}

}  // namespace outrigger::mpi
