// Service processes that are children of this process: their start, the rings between them, their messages, and their
// end. Used by the keeper of a node and by `outriggerd dpu`.
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
#include "protocol/shared/service_heartbeat.hpp"
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

// A process that has ended, or was killed because it hung.
struct LostService {
  std::uint32_t sp = 0;
  pid_t pid = 0;
  std::string how;      // "was killed by signal 9 (Killed) (its captured stderr)"
  bool killed = false;  // by a signal, without a fault report, or at its own request: a replacement may do better
};

// From its published pages; nullptr: it has published nothing.
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

  // Starts the next one, or restarts a lost one, which keeps its doorbell.
  [[nodiscard]] Status start(std::uint32_t sp);
  // Before any start: the number of starts elsewhere, by place. Makes the doorbells.
  [[nodiscard]] Status take_after(std::span<const std::uint32_t> times_started);
  // Starts the standby: it has no place and no peers. There is at most one.
  [[nodiscard]] Status start_standby();
  [[nodiscard]] bool has_standby() const { return !processes_.empty() && processes_.back().is_standby; }
  // The standby takes over number `sp` of a lost process, and its doorbell.
  void replace(std::uint32_t sp);
  // Gives it rings to and from each running process that it has none with; those are told, too.
  [[nodiscard]] Status connect(std::uint32_t sp);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(processes_.size()); }
  [[nodiscard]] pid_t pid(std::uint32_t sp) const { return processes_[sp].pid; }
  [[nodiscard]] int doorbell(std::uint32_t sp) const { return processes_[sp].doorbell.get(); }
  [[nodiscard]] std::uint32_t times_started(std::uint32_t sp) const { return processes_[sp].times_started; }

  // Does nothing if the process is lost.
  void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds = {});
  template <class T>
  void tell(std::uint32_t sp, ControlKind kind, const T& body, std::span<const int> fds = {}) {
    send(sp, encode_control(kind, body), fds);
  }
  // True if a process leaves so much unread that optional messages should wait. Required messages are bounded by
  // earlier ones.
  [[nodiscard]] bool backlogged() const;

  // Messages received. To be called when an event names a service process, and every StoppedServices::kTurn while any
  // is stopped.
  [[nodiscard]] std::vector<ServiceMessage> receive(const Event& event);
  [[nodiscard]] bool any_stopped() const { return stopped_.any(); }
  // Shows its heartbeat from now on; its replacement continues with the same pages.
  void show_heartbeat(std::uint32_t sp);
  // nullptr if there are none.
  [[nodiscard]] ServicePages* shown(std::uint32_t sp) const;
  // To be called every HungServices::kBetweenLooks, for those that show_heartbeat(). `have_posts`: by process, its
  // ranks have posts that it has not taken. Ends hung processes.
  void look_for_hung(const std::bitset<kMaxServices>& have_posts);
  // Those lost since the last call, each once.
  [[nodiscard]] std::vector<LostService> take_lost() { return std::exchange(lost_, {}); }

  // Ends all and waits for them.
  void stop();

 private:
  struct Process {
    pid_t pid = 0;
    QueuedSocket socket;  // closed when it is lost
    UniqueFd exit_event;
    UniqueFd doorbell;
    std::bitset<kMaxServices> connected;  // to these
    bool is_standby = false;
    std::string fault;  // its fault report about the whole job
    std::uint32_t times_started = 0;
    Mapping shown;  // ServicePages; invalid: none
    UniqueFd shown_fd;
    std::string given_up;  // why it was killed, or asks to be replaced
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
