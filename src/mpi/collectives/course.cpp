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

}  // namespace

NativeReason ask_course(const Job& job, CommState& comm, Collective collective) {
  const std::shared_ptr<const client::Group> group = comm.group(*job.client);
  if (group == nullptr) return NativeReason::none;
  const Course course = job.client->courses().next(*group);
  if ((course.busy & Course::bit(collective)) != 0) {
    say_taken(job, comm);
    return NativeReason::service_core_taken;
  }
  if ((course.small & Course::bit(collective)) != 0) return NativeReason::small_blocks;
  comm.forget_larger_blocks(collective);
  return NativeReason::none;
}

void note_largest_block(const Job& job, CommState& comm, Collective collective, std::uint64_t bytes) {
  if (bytes <= kSmallBlockBytes || !comm.note_larger_blocks(collective)) return;
  if (const auto group = comm.group(*job.client)) job.client->courses().tell_of_larger_blocks(*group, collective);
}

}  // namespace outrigger::mpi
