// Detects hung service processes: an endless loop, a deadlock, or a lost wake-up.
//
// It compares each process's heartbeat (protocol/shared/service_heartbeat.hpp) and the kernel's figures every few
// seconds, without a message to the process. A process that sleeps without work is healthy. One that is runnable
// without getting a core, or waits for swapped memory, is not hung: the machine is busy, and a replacement would do no
// better.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outrigger::service {

// From the kernel.
struct ProcessSign {
  char state = '?';  // from /proc/PID/stat
  std::chrono::milliseconds cpu{0};
};
// nullopt: it has ended, or is a thread.
[[nodiscard]] std::optional<ProcessSign> sign_of_process(pid_t pid);

struct ServiceSign {
  std::uint64_t turns = 0;
  bool work_waits = false;  // it has unread messages, doorbell rings or posts, or does not sleep
  ProcessSign process;
};

class HungServices {
 public:
  static constexpr std::chrono::milliseconds kBetweenLooks{2000};
  static constexpr std::uint32_t kLooksUntilLost = std::chrono::seconds(12) / kBetweenLooks;
  // Total in all looks since its last turn: one turn on a busy machine may take less.
  static constexpr std::chrono::milliseconds kLeastCpu{4000};

  // To be called every kBetweenLooks. Counts looks, not time, because a whole job may be stopped for a while. Returns
  // why the process is lost, for people.
  [[nodiscard]] std::optional<std::string> look(std::uint32_t sp, const ServiceSign& sign);
  // The process is replaced.
  void forget(std::uint32_t sp);

 private:
  struct Watched {
    ServiceSign last;
    std::uint32_t looks = 0;         // without progress though it ran or should have run
    std::uint32_t asleep_looks = 0;  // the last ones of them, in which it slept
    std::chrono::milliseconds cpu{0};
    bool seen = false;

    void reset() {
      looks = asleep_looks = 0;
      cpu = std::chrono::milliseconds{0};
    }
  };

  std::vector<Watched> watched_;
};

}  // namespace outrigger::service
