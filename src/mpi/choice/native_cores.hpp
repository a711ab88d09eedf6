// The cores that a rank has while its collectives go natively. `outrigger run` keeps cores for service processes where
// ranks then share what is left; a communicator whose calls are better native would pay for that. So a rank moves to
// the core that it would have had without service processes while none of its calls is offloaded, and back for the
// first that is.
//
// Only where `outrigger run` has bound the rank and says what it would have had (OUTRIGGER_NATIVE_CPUS); threads that
// the program has bound itself stay where they are.
//
// Thread rule: any thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "client/client.hpp"

namespace outrigger::mpi {

class NativeCores {
 public:
  // `cpus` as in OUTRIGGER_NATIVE_CPUS; empty: the rank stays where it is. `client` outlives this.
  NativeCores(std::string_view cpus, client::Client& client);

  // Nothing has been offloaded yet.
  void start_natively() {
    if (possible_.load(std::memory_order_relaxed)) move(true);
  }
  // A call is native because it is better so. The rank moves when there have been some in a row; at once where a trial
  // wants it `now` and no other communicator's operations have been offloaded of late.
  void native_call(const void* communicator, bool now) {
    if (possible_.load(std::memory_order_relaxed)) note_native(communicator, now);
  }
  // Before an operation is posted.
  void offloaded_call(const void* communicator) {
    if (possible_.load(std::memory_order_relaxed)) note_offloaded(communicator);
  }

 private:
  static constexpr std::uint32_t kInARow = 50;
  static constexpr std::uint32_t kInARowAlone = 3;  // where no other communicator has offloaded anything since

  void note_native(const void* communicator, bool now);
  void note_offloaded(const void* communicator);
  void move(bool native);

  client::Client& client_;
  std::atomic<bool> possible_ = false;
  std::atomic<bool> native_ = false;  // where the rank is
  std::atomic<std::uint32_t> natives_in_a_row_ = 0;
  std::atomic<const void*> offloaded_last_ = nullptr;
  std::mutex mutex_;
  cpu_set_t kept_{};
  cpu_set_t free_{};
};

// As `OUTRIGGER_NATIVE_CPUS` has them: numbers with commas between them. False: it is something else.
[[nodiscard]] bool read_cpus(std::string_view text, cpu_set_t& cpus);

}  // namespace outrigger::mpi
