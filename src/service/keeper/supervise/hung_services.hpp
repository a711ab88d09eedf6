// Service processes that are there and do not get on: an endless loop, a lock that nobody opens, a wake-up that was
// lost.
//
// Seen by what each shows (protocol/shared/service_pulse.hpp) and by what the kernel says of it, every few seconds and
// without a word to it. One that sleeps and has nothing to do is well. One that could run and is given no time, or
// waits for memory to come back from a disk, is not counted on: the machine is busy, and another one would get no more.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outrigger::service {

// As the kernel says.
struct ProcessSign {
  char state = '?';  // of /proc/PID/stat
  std::chrono::milliseconds cpu{0};
};
// Nothing: it has gone, or is a thread.
[[nodiscard]] std::optional<ProcessSign> sign_of_process(pid_t pid);

struct ServiceSign {
  std::uint64_t turns = 0;
  bool work_waits = false;  // somebody rings, has said something, or has posted; or it does not wait for any of these
  ProcessSign process;
};

class HungServices {
 public:
  static constexpr std::chrono::milliseconds kBetweenLooks{2000};
  static constexpr std::uint32_t kLooksUntilLost = std::chrono::seconds(12) / kBetweenLooks;
  // In all looks since its last turn: less may be one turn of a busy machine.
  static constexpr std::chrono::milliseconds kLeastCpu{4000};

  // To be called at each look, kBetweenLooks apart. Looks are counted, not time: a whole job may be stopped for a while
  // and go on. The answer, for people: why it is lost.
  [[nodiscard]] std::optional<std::string> look(std::uint32_t sp, const ServiceSign& sign);
  // Another one takes its place.
  void forget(std::uint32_t sp);

 private:
  struct Watched {
    ServiceSign last;
    std::uint32_t looks = 0;         // in which it has not got on though it ran or should have
    std::uint32_t asleep_looks = 0;  // the last ones of them, in which it slept
    std::chrono::milliseconds cpu{0};
    bool seen = false;

    void begin_anew() {
      looks = asleep_looks = 0;
      cpu = std::chrono::milliseconds{0};
    }
  };

  std::vector<Watched> watched_;
};

}  // namespace outrigger::service
