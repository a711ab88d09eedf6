#include "service/loop/own_watch.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "service/keeper/supervise/hung_services.hpp"

namespace outrigger::service {

void OwnWatch::begin(const ServiceHeartbeat& heartbeat, int doorbell) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the main thread
  thread_ =
      std::jthread([this, &heartbeat, doorbell](const std::stop_token& stop) { watch(stop, heartbeat, doorbell); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void OwnWatch::watch(const std::stop_token& stop, const ServiceHeartbeat& heartbeat, int doorbell) {
  HungServices looks;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    stopped_.wait_for(lock, stop, HungServices::kBetweenLooks, [] { return false; });
    const std::optional<ProcessSign> process = sign_of_process(::getpid());  // the first thread's state
    if (stop.stop_requested() || !process) continue;
    const ServiceSign sign{
        .turns = heartbeat.turns.load(std::memory_order_relaxed), .work_waits = true, .process = *process};
    // No process reads its messages any more, and it may hang in the log itself.
    if (looks.look(0, sign)) ::kill(::getpid(), SIGKILL);
    (void)::eventfd_write(doorbell, 1);  // so that it has something to do until the next look
  }
}

}  // namespace outrigger::service
