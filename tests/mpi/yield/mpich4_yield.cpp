// Lets the ranks of MPICH 4.0 share cores. It polls its UCX without ever yielding, so each message between ranks of one
// core costs a time slice, which is too slow for tests with thousands. MPICH 5 and Open MPI yield by themselves. Put it
// in LD_PRELOAD before libucp.so.0, which must be there in case libmpich itself is loaded privately.
#include <dlfcn.h>

#include <chrono>
#include <thread>

namespace {

using Progress = unsigned (*)(void* worker);

constexpr int kIdleCalls = 20;
// Not sched_yield(): with seven ranks on two cores it costs ten times the processor time.
constexpr std::chrono::microseconds kSleep(20);

}  // namespace

// Advances a worker like UCX; sleeps shortly after a number of calls without work.
extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
  static const auto progress = reinterpret_cast<Progress>(::dlsym(RTLD_NEXT, "ucp_worker_progress"));
  thread_local int idle_calls = 0;
  const unsigned events = progress(worker);
  if (events != 0) {
    idle_calls = 0;
  } else if (++idle_calls == kIdleCalls) {
    idle_calls = 0;
    std::this_thread::sleep_for(kSleep);
  }
  return events;
}
