// Service processes that are children of this one: starting them, the rings between them, what is said to them and
// heard of them, and how they end. For the keeper of a node, and for `outriggerd dpu`.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/shared_memory.hpp"
#include "protocol/shared/service_pulse.hpp"
#include "protocol/wire/control.hpp"
#include "service/keeper/events.hpp"
#include "service/keeper/supervise/hung_services.hpp"
#include "service/keeper/supervise/queued_socket.hpp"
#include "service/keeper/supervise/starter.hpp"
#include "service/keeper/supervise/stopped_services.hpp"

namespace outrigger::service {

struct ServiceMessage {
  std::uint32_t sp = 0;
  ControlMessage message;
};

// One that has ended, or has been ended because it did nothing.
struct LostService {
  std::uint32_t sp = 0;
  pid_t pid = 0;
  std::string how;      // "was killed by signal 9 (Killed) (its last words)"
  bool killed = false;  // by a signal, without a word, or it asks for it: another one may do better
};

// By what it has shown, which is nothing where `shown` is null.
[[nodiscard]] std::optional<OperationId> last_taken(const ServicePages* shown);
// " after it had taken ...", if it had taken anything.
[[nodiscard]] std::string where_it_was(const ServicePages* shown);

// Thread rule: one thread.
class ServiceProcesses {
 public:
  // Both must outlive this.
  ServiceProcesses(ServiceStarter& starter, Events& events);
  ~ServiceProcesses() { stop(); }
  ServiceProcesses(const ServiceProcesses&) = delete;
  ServiceProcesses& operator=(const ServiceProcesses&) = delete;

  // Starts the next one, or again one that has been lost. Its doorbell stays the same.
  [[nodiscard]] Status start(std::uint32_t sp);
  // Before any starts: so often each has been started elsewhere, where they have been lost. They have doorbells from
  // now on.
  [[nodiscard]] Status take_after(std::span<const std::uint32_t> times_started);
  // As start(), of one that has no place yet: it is the last one, and nobody's peer. There is one such at most.
  [[nodiscard]] Status start_to_stand_by();
  [[nodiscard]] bool one_stands_by() const { return !processes_.empty() && processes_.back().stands_by; }
  // That one is number `sp` from now on, which has been lost, with its doorbell.
  void replace(std::uint32_t sp);
  // Gives it a ring to and from each other one that runs, of which it has none yet; the others are told, too.
  [[nodiscard]] Status connect(std::uint32_t sp);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(processes_.size()); }
  [[nodiscard]] pid_t pid(std::uint32_t sp) const { return processes_[sp].pid; }
  [[nodiscard]] int doorbell(std::uint32_t sp) const { return processes_[sp].doorbell.get(); }
  [[nodiscard]] std::uint32_t times_started(std::uint32_t sp) const { return processes_[sp].times_started; }

  // To one that has been lost: nothing.
  void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds = {});
  template <class T>
  void tell(std::uint32_t sp, ControlKind kind, const T& body, std::span<const int> fds = {}) {
    send(sp, encode_control(kind, body), fds);
  }
  // Does any leave so much unread that nothing should be said that can be left unsaid? The rest is bounded by what has
  // been said before.
  [[nodiscard]] bool backlogged() const;

  // What they have said. To be called when an event names a service process, and every StoppedServices::kTurn while any
  // is stopped.
  [[nodiscard]] std::vector<ServiceMessage> receive(const Event& event);
  [[nodiscard]] bool any_stopped() const { return stopped_.any(); }
  // It shows from now on that it gets on; what it shows is left to the one that takes its place.
  void show_pulse(std::uint32_t sp);
  // Null: nothing.
  [[nodiscard]] ServicePages* shown(std::uint32_t sp) const;
  // To be called HungServices::kBetweenLooks apart, of those that show_pulse(). `have_posts`: of whose ranks some have
  // posted what they have not taken. Ends those that do not get on.
  void look_for_hung(const std::bitset<kMaxServices>& have_posts);
  // Those lost since the last call, each once.
  [[nodiscard]] std::vector<LostService> take_lost() { return std::exchange(lost_, {}); }

  // Ends them all and waits for them.
  void stop();

 private:
  struct Process {
    pid_t pid = 0;
    QueuedSocket socket;  // closed when it is lost
    UniqueFd exit_event;
    UniqueFd doorbell;
    std::bitset<kMaxServices> connected;  // to these
    bool stands_by = false;
    std::string last_words;  // its protest about the whole job
    std::uint32_t times_started = 0;
    Mapping shown;  // ServicePages; invalid: it shows nothing
    UniqueFd shown_fd;
    std::string given_up;  // why it has been killed, or asks for another one in its place
    bool begins_anew = false;

    void watch(Events& events, std::uint32_t sp) const;
    [[nodiscard]] Status have_doorbell();
  };

  void read(std::uint32_t sp, std::vector<ServiceMessage>& messages);
  void sort(std::uint32_t sp, ControlMessage message, std::vector<ServiceMessage>& messages);
  void closed(std::uint32_t sp, const ControlSocket::Received& last, std::vector<ServiceMessage>& messages);
  void ended(std::uint32_t sp, std::vector<ServiceMessage>& messages);
  void give_up(std::uint32_t sp, const std::string& why);
  void lose(std::uint32_t sp, const std::string& how, bool killed);

  ServiceStarter& starter_;
  Events& events_;
  std::vector<Process> processes_;
  StoppedServices stopped_;
  HungServices hung_;
  std::vector<LostService> lost_;
};

}  // namespace outrigger::service
