#include "group/assembly.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "group/failure.hpp"
#include "group/service/service_start.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::group {
namespace {

constexpr std::uint64_t kMagic = 0x6f75747267727034;  // with the version of this record

struct Descriptor {
  std::int64_t fd = -1;
  std::uint64_t device = 0;  // process ids may be used again
  std::uint64_t inode = 0;
};

// Told by each member.
struct Whereabouts {
  std::uint64_t magic = kMagic;
  std::uint32_t size = 0;
  std::uint32_t rank = 0;
  std::array<char, 40> boot{};  // the running kernel's identity
  std::uint64_t pid_namespace = 0;
  std::uint64_t pretended_node = 0;
  std::int64_t pid = 0;
  Descriptor control{};  // only the first member's, for a group on one node
  Descriptor area{};
  Descriptor service{};                  // only the first member's, if a core is kept for a service process
  std::array<std::uint64_t, 16> cpus{};  // that it may run on
};

// Told by each member of a group on several nodes.
struct Place {
  std::uint64_t magic = kMagic;
  Descriptor control{};  // only of the first member of a node
  Descriptor area{};
  Descriptor service{};  // if a core is kept there
  Contact contact{};
};

// Told by the first member of each node when it has started the service process, or has failed to.
struct Served {
  std::uint64_t magic = kMagic;
  std::int64_t result = 0;
  std::int64_t pid = 0;
};

// Told when a member has tried to attach: 0 or an enum outrigger_group_result.
struct Attached {
  std::uint64_t magic = kMagic;
  std::int64_t result = 0;
};

using Clock = std::chrono::steady_clock;

// Between two looks at members whose word is missing. A store that returns much earlier has failed.
constexpr std::chrono::milliseconds kLimitOfAnAnswer{500};
// A store or memory may be out of reach because its member ends.
constexpr std::chrono::milliseconds kMostForADeath{1000};
// Members have all attached before they connect.
constexpr std::chrono::seconds kMostForConnecting{60};

// OUTRIGGER_PRETEND_NODE: the node's name, or a name for each rank with commas between them.
std::uint64_t pretended_node(std::uint32_t rank) {
  const char* value = std::getenv(setting::kPretendNode);
  std::string_view names = value == nullptr ? "" : value;
  for (std::size_t comma = names.find(','); rank > 0 && comma != std::string_view::npos; comma = names.find(',')) {
    names.remove_prefix(comma + 1);
    --rank;
  }
  names = names.substr(0, names.find(','));
  return names.empty() ? 0 : std::hash<std::string_view>{}(names) | 1;
}

std::array<char, 40> boot_identity() {
  std::array<char, 40> identity{};
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (file.valid() && ::read(file.get(), identity.data(), identity.size() - 1) < 0) identity = {};
  return identity;
}

// 0: it has no identity.
std::uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

Descriptor described(const UniqueFd& fd) {
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return {};
  return {.fd = fd.get(), .device = status.st_dev, .inode = status.st_ino};
}

UniqueFd opened(std::int64_t pid, const Descriptor& one) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(one.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const Descriptor found = described(fd);
  return found.device == one.device && found.inode == one.inode ? std::move(fd) : UniqueFd();
}

std::array<std::uint64_t, 16> allowed_cpus() {
  std::array<std::uint64_t, 16> mask{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return mask;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) mask[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  }
  return mask;
}

// Needs no memory: a member without any tells so.
class Key {
 public:
  Key(const char* what, std::uint32_t rank) { (void)std::snprintf(text_.data(), text_.size(), "%s/%u", what, rank); }
  [[nodiscard]] const char* text() const { return text_.data(); }

 private:
  std::array<char, 32> text_{};
};

class Assembler {
 public:
  Assembler(const struct outrigger_group_config& config, std::int64_t timeout_ms, Refusal& refusal)
      : config_(config), timeout_ms_(timeout_ms), refusal_(refusal) {}

  std::unique_ptr<Assembly> run() {
    try {
      if (assembles()) return std::move(assembly_);
      give_up();
      return nullptr;
    } catch (...) {
      give_up();
      throw;
    }
  }

 private:
  bool assembles() {
    all_.resize(config_.size);
    const Whereabouts mine = own();
    // A member that has no memory tells so, too.
    if (!set("member", config_.rank, mine) || !get_members() || !agree()) return false;
    const Layout layout = this->layout();
    if (layout.nodes() > 1 && !tell_places(layout)) return false;
    assembly_ = attached(layout);
    if (!tell(refusal_.result) || !all_have_attached()) return false;
    if (layout.nodes() > 1 && !connect(*assembly_)) return false;
    if (!service_) return true;
    if (layout.nodes() > 1 && !start_services(*assembly_)) return false;
    return watch_service(*assembly_);
  }

  // Nothing is left, and others do not wait for this member.
  void give_up() {
    if (service_) stop_service(*service_);
    if (assembly_ != nullptr && death_.is_set()) tell_death();
    if (assembly_ != nullptr) assembly_->area.leave(assembly_->layout.place());
    if (is_to_start_) (void)tell_service({.result = OUTRIGGER_GROUP_NO_MEMORY});
    if (!has_told_) (void)tell(refusal_.result != OUTRIGGER_GROUP_OK ? refusal_.result : OUTRIGGER_GROUP_NO_MEMORY);
  }
  // Before this member closes its connections: others would take it for the cause.
  void tell_death() const {
    const std::uint64_t word = assembly_->area.fail(death_).word();
    for (std::uint32_t rank = 0; rank < connections(); ++rank) {
      if (line_to(rank) >= 0) (void)::send(line_to(rank), &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  bool tell(int result) {
    has_told_ = true;
    return set("attached", config_.rank, Attached{.result = result});
  }

  Whereabouts own() {
    Whereabouts mine{.size = config_.size,
                     .rank = config_.rank,
                     .boot = boot_identity(),
                     .pretended_node = pretended_node(config_.rank),
                     .pid = ::getpid(),
                     .cpus = allowed_cpus()};
    mine.pid_namespace = pid_namespace();
    if (config_.rank == 0) make_memory(config_.size, mine.control, mine.area);
    if (config_.rank == 0 && config_.size > 1) mine.service = make_service_memory(config_.size);
    return mine;
  }

  // None if no core is kept.
  Descriptor make_service_memory(std::uint32_t members) {
    if (kept_cpus().empty()) return {};
    Result<UniqueFd> made = ServiceArea::create(members);
    if (made) service_fd_ = std::move(made).value();
    return described(service_fd_);
  }

  // The first member of the node starts the process; where there are several nodes, when all are connected.
  bool attach_service(const Layout& layout, const std::vector<pid_t>& pids) {
    const Whereabouts& first = all_[layout.here().front()];
    if (first.service.fd < 0) return true;
    Result<ServiceArea> area = ServiceArea::attach(service_fd_.get(), static_cast<std::uint32_t>(pids.size()));
    if (!area) return refuse(OUTRIGGER_GROUP_NO_MEMORY, area.error());
    service_ = std::move(area).value();
    service_->seat(layout.place()).has_joined.store(true, std::memory_order_release);
    is_to_start_ = layout.nodes() > 1 && layout.place() == 0;
    return layout.nodes() > 1 || layout.place() != 0 || start(layout, pids, {});
  }
  bool start(const Layout& layout, const std::vector<pid_t>& pids, std::vector<int> connections) {
    const ServiceStart start{
        .area_fd = service_fd_.get(), .cpus = kept_cpus(), .pids = pids, .connections = std::move(connections)};
    const Status started = start_service(*service_, layout, start);
    return started.ok() || refuse(OUTRIGGER_GROUP_BAD_ARGUMENT, started.error());
  }
  // One for each node.
  bool start_services(Assembly& assembly) {
    const Layout& layout = assembly.layout;
    if (layout.place() == 0) {
      (void)start(layout, pids_of(layout.here()), connections_of_services(assembly));
      const auto pid = static_cast<std::int64_t>(service_->head().pid.load(std::memory_order_acquire));
      if (!tell_service({.result = refusal_.result, .pid = pid})) return false;
    }
    for (auto& channels : assembly.connections) channels[static_cast<std::size_t>(Channel::services)].reset();
    for (std::uint32_t node = 0; node < layout.nodes(); ++node) {
      Served served;
      const std::uint32_t first = layout.members(node).front();
      if (!get("served", first, served) || !check(first, {.result = served.result})) return false;
      assembly.service_pids.push_back(static_cast<pid_t>(served.pid));
    }
    return refusal_.result == OUTRIGGER_GROUP_OK;
  }
  bool tell_service(const Served& served) {
    is_to_start_ = false;
    return set("served", config_.rank, served);
  }
  static std::vector<int> connections_of_services(const Assembly& assembly) {
    std::vector<int> sockets;
    for (std::uint32_t node = 0; node < assembly.layout.nodes(); ++node) {
      const auto& channels = assembly.connections[assembly.layout.members(node).front()];
      if (node != assembly.layout.node())
        sockets.push_back(channels[static_cast<std::size_t>(Channel::services)].get());
    }
    return sockets;
  }
  bool watch_service(Assembly& assembly) {
    const auto pid = static_cast<pid_t>(service_->head().pid.load(std::memory_order_acquire));
    if (assembly.service_pids.empty()) assembly.service_pids = {pid};
    Result<MemberProcesses> process = MemberProcesses::open({pid});
    if (!process) return refuse(OUTRIGGER_GROUP_NO_MEMORY, process.error());
    assembly.service = service_;
    assembly.service_process = std::move(process).value();
    return true;
  }

  void make_memory(std::uint32_t members, Descriptor& control, Descriptor& area) {
    Result<UniqueFd> made_control = intranode::ControlArea::create(members);
    Result<UniqueFd> made_area = GroupArea::create(members);
    if (made_control) control_ = std::move(made_control).value();
    if (made_area) area_ = std::move(made_area).value();
    control = described(control_);
    area = described(area_);
  }

  // Where members of other nodes connect; and the memory of each node, as rank 0 has made some for one node.
  bool tell_places(const Layout& layout) {
    Place mine;
    if (layout.place() == 0) {
      const auto members = static_cast<std::uint32_t>(layout.here().size());
      make_memory(members, mine.control, mine.area);
      mine.service = make_service_memory(members);
    }
    Result<Listener> listener = Listener::open();
    if (listener) {
      mine.contact = listener.value().contact();
      listener_.emplace(std::move(listener).value());
    } else {
      (void)refuse(OUTRIGGER_GROUP_NO_MEMORY, listener.error());
    }
    places_.resize(config_.size);
    if (!set("place", config_.rank, mine) || !get_all("place", places_)) return false;
    all_[layout.here().front()].control = places_[layout.here().front()].control;
    all_[layout.here().front()].area = places_[layout.here().front()].area;
    if (keep_cores_everywhere(layout)) all_[layout.here().front()].service = places_[layout.here().front()].service;
    return true;
  }
  // All nodes have a service process, or none has.
  [[nodiscard]] bool keep_cores_everywhere(const Layout& layout) {
    all_.front().service = {};  // for one node
    for (std::uint32_t node = 0; node < layout.nodes(); ++node) {
      if (places_[layout.members(node).front()].service.fd < 0) return false;
    }
    return true;
  }

  bool connect(Assembly& assembly) {
    std::vector<Contact> contacts;
    for (const Place& one : places_) contacts.push_back(one.contact);
    const std::chrono::milliseconds timeout(timeout_ms_);
    Result<Listener::Connections> made =
        listener_->connect(assembly.layout, contacts, service_.has_value(),
                           std::min<std::chrono::milliseconds>(timeout, kMostForConnecting));
    if (!made) {
      a_member_ends();  // its system refuses connections
      return refuse(OUTRIGGER_GROUP_NO_MEMORY, made.error());
    }
    assembly.connections = std::move(made).value();
    return true;
  }

  template <class Record>
  bool set(const char* what, std::uint32_t rank, const Record& record) {
    const Key key(what, rank);
    if (config_.store.set(config_.store.context, key.text(), &record, sizeof record) == 0) return true;
    return refuse(OUTRIGGER_GROUP_STORE_FAILED, std::string("the store did not set ") + key.text());
  }
  template <class Record>
  bool get(const char* what, std::uint32_t rank, Record& record) {
    const Key key(what, rank);
    if (!wait_for(key, &record, sizeof record)) {
      return refuse(OUTRIGGER_GROUP_STORE_FAILED, std::string("the store has no ") + key.text() + ": rank " +
                                                      std::to_string(rank) + " has not come to create the group");
    }
    if (record.magic == kMagic) return true;
    return refuse(OUTRIGGER_GROUP_STORE_FAILED,
                  std::string("the store's ") + key.text() +
                      " is no record of this version; all ranks must have the same liboutrigger_group");
  }

  // False: it has not come in time, or a member has ended, which is refused.
  bool wait_for(const Key& key, void* record, std::size_t bytes) {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms_);
    for (;;) {
      const Clock::time_point began = Clock::now();
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - began).count();
      const std::int64_t limit_ms = std::clamp<std::int64_t>(left, 1, kLimitOfAnAnswer.count());
      if (has(key, record, bytes, limit_ms)) return true;
      const bool is_early = Clock::now() - began < std::chrono::milliseconds(limit_ms) / 2;
      if (a_member_has_ended() || a_member_was_refused()) return false;
      if (Clock::now() >= end) return false;
      if (is_early) {
        a_member_ends();
        return false;
      }
    }
  }
  [[nodiscard]] bool has(const Key& key, void* record, std::size_t bytes, std::int64_t limit_ms) const {
    return config_.store.get(config_.store.context, key.text(), record, bytes, limit_ms) == 0;
  }

  bool a_member_has_ended() {
    std::optional<Death> death = ended_process();
    if (!death) death = broken_connection();
    // Members that give up end as well, after they have told the cause.
    if (const std::optional<Death> told = told_death()) death = told;
    if (!death) return false;
    death_ = death->failure;
    const auto pid = static_cast<pid_t>(all_[death_.about].pid);
    (void)refuse(OUTRIGGER_GROUP_DEAD_RANK, sentence_of(death_, config_.rank, pid, death->is_far));
    return true;
  }
  struct Death {
    Failure failure;
    bool is_far;
  };
  [[nodiscard]] Failure death_of(std::uint32_t rank) const {
    return {.kind = FailureKind::died, .about = rank, .noticed = config_.rank};
  }
  [[nodiscard]] std::optional<Death> ended_process() const {
    for (const auto& [rank, process] : known_) {
      if (process.has_ended(0)) return Death{death_of(rank), false};
    }
    return std::nullopt;
  }
  // To a member of another node.
  [[nodiscard]] std::optional<Death> broken_connection() const {
    for (std::uint32_t rank = 0; rank < connections(); ++rank) {
      if (is_broken(line_to(rank))) return Death{death_of(rank), true};
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Death> told_death() const {
    if (assembly_ == nullptr) return std::nullopt;
    Failure told = assembly_->area.failure();
    for (std::uint32_t rank = 0; rank < connections() && !told.is_set(); ++rank) told = told_by(line_to(rank));
    const Layout& layout = assembly_->layout;
    if (told.kind != FailureKind::died || told.about >= layout.size() || told.noticed >= layout.size()) {
      return std::nullopt;
    }
    return Death{told, layout.node_of(told.about) != layout.node_of(told.noticed)};
  }
  // 0 before they are made.
  [[nodiscard]] std::size_t connections() const { return assembly_ == nullptr ? 0 : assembly_->connections.size(); }
  [[nodiscard]] int line_to(std::uint32_t rank) const {
    return assembly_->connections[rank][static_cast<std::size_t>(Channel::watch)].get();
  }
  // False without a line.
  [[nodiscard]] static bool is_broken(int line) {
    std::byte any{};
    if (line < 0) return false;
    const ssize_t got = ::recv(line, &any, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }
  [[nodiscard]] static Failure told_by(int line) {
    std::uint64_t word = 0;
    const bool is_whole = line >= 0 && ::recv(line, &word, sizeof word, MSG_PEEK | MSG_DONTWAIT) == sizeof word;
    return is_whole ? Failure::of(word) : Failure();
  }
  // One that fails does not tell all that the others wait for.
  bool a_member_was_refused() {
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      Attached one;
      if (rank != config_.rank && has(Key("attached", rank), &one, sizeof one, 1) && !check(rank, one)) return true;
    }
    return false;
  }
  bool check(std::uint32_t rank, const Attached& one) {
    if (one.result == OUTRIGGER_GROUP_OK) return true;
    if (one.result == OUTRIGGER_GROUP_DEAD_RANK) a_member_ends();  // which names it, if it was on this machine
    return refuse(static_cast<int>(one.result), "rank " + std::to_string(rank) + " could not join the group: " +
                                                    outrigger_group_result_text(static_cast<int>(one.result)));
  }
  // After a failure that a death may have caused.
  void a_member_ends() {
    const Clock::time_point end = Clock::now() + kMostForADeath;
    while (!a_member_has_ended() && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  bool get_members() {
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      if (!get("member", rank, all_[rank])) return false;
      const Whereabouts& one = all_[rank];
      const bool is_seen = one.boot == boot_identity() && one.pid_namespace == pid_namespace();
      if (rank == config_.rank || !is_seen) continue;
      Result<MemberProcesses> process = MemberProcesses::open({static_cast<pid_t>(one.pid)});
      if (process) known_.emplace_back(rank, std::move(process).value());
    }
    return true;
  }

  template <class Record>
  bool get_all(const char* what, std::vector<Record>& records) {
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      if (!get(what, rank, records[rank])) return false;
    }
    return true;
  }

  bool agree() {
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      const Whereabouts& one = all_[rank];
      if (one.size == config_.size) continue;
      return refuse(OUTRIGGER_GROUP_DIFFERENT, "rank " + std::to_string(rank) + " says that the group has " +
                                                   std::to_string(one.size) + " ranks, and rank " +
                                                   std::to_string(config_.rank) + " that it has " +
                                                   std::to_string(config_.size));
    }
    return true;
  }

  // Members share memory if they are on one machine, in one container. Machines without an identity may differ.
  [[nodiscard]] Layout layout() const {
    const auto share = [](const Whereabouts& one, const Whereabouts& other) {
      return one.boot.front() != '\0' && one.boot == other.boot && one.pid_namespace == other.pid_namespace &&
             one.pretended_node == other.pretended_node;
    };
    std::vector<std::uint32_t> first_of(config_.size);
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      first_of[rank] = rank;
      for (std::uint32_t other = 0; other < rank && all_[rank].pid_namespace != 0; ++other) {
        if (!share(all_[rank], all_[other])) continue;
        first_of[rank] = other;
        break;
      }
    }
    return Layout(config_.rank, first_of);
  }

  std::unique_ptr<Assembly> attached(const Layout& layout) {
    if (refusal_.result != OUTRIGGER_GROUP_OK) return nullptr;
    const std::uint32_t maker = layout.here().front();
    const Whereabouts& first = all_[maker];
    if (config_.rank != maker) {
      control_ = opened(first.pid, first.control);
      area_ = opened(first.pid, first.area);
      if (first.service.fd >= 0) service_fd_ = opened(first.pid, first.service);
    }
    if (!control_.valid() || !area_.valid() || (first.service.fd >= 0 && !service_fd_.valid())) {
      a_member_ends();
      (void)refuse(OUTRIGGER_GROUP_NO_MEMORY, "rank " + std::to_string(config_.rank) +
                                                  " cannot reach the shared memory of rank " + std::to_string(maker) +
                                                  " (process " + std::to_string(first.pid) +
                                                  "): both must run as the same user, with /proc");
      return nullptr;
    }
    const auto members = static_cast<std::uint32_t>(layout.here().size());
    Result<intranode::ControlArea> control = intranode::ControlArea::attach(control_.get(), members);
    Result<GroupArea> area = GroupArea::attach(area_.get(), members);
    if (!control || !area) {
      (void)refuse(OUTRIGGER_GROUP_NO_MEMORY, control ? area.error() : control.error());
      return nullptr;
    }
    std::vector<pid_t> pids;
    for (const Whereabouts& one : all_) pids.push_back(static_cast<pid_t>(one.pid));
    Result<MemberProcesses> processes = MemberProcesses::open(pids_of(layout.here()));
    if (!processes) {
      (void)refuse(OUTRIGGER_GROUP_NO_MEMORY, processes.error());
      return nullptr;
    }
    if (!attach_service(layout, pids_of(layout.here()))) return nullptr;
    return std::make_unique<Assembly>(Assembly{.layout = layout,
                                               .control = std::move(control).value(),
                                               .area = std::move(area).value(),
                                               .pids = std::move(pids),
                                               .processes = std::move(processes).value(),
                                               .policy = policy()});
  }

  [[nodiscard]] std::vector<pid_t> pids_of(const std::vector<std::uint32_t>& members) const {
    std::vector<pid_t> pids;
    for (const std::uint32_t member : members) pids.push_back(static_cast<pid_t>(all_[member].pid));
    return pids;
  }

  bool all_have_attached() {
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      Attached one;
      if (!get("attached", rank, one)) return false;
      if (!check(rank, one)) return false;
    }
    return refusal_.result == OUTRIGGER_GROUP_OK;
  }

  // For all members on this machine, also on pretended nodes.
  [[nodiscard]] intranode::WaitPolicy policy() const {
    std::array<std::uint64_t, 16> any{};
    std::size_t members = 0;
    for (const Whereabouts& one : all_) {
      if (one.boot != all_[config_.rank].boot) continue;
      ++members;
      for (std::size_t word = 0; word < any.size(); ++word) any[word] |= one.cpus[word];
    }
    std::size_t cpus = 0;
    for (const std::uint64_t word : any) cpus += static_cast<std::size_t>(__builtin_popcountll(word));
    return cpus >= members ? intranode::WaitPolicy::own_core() : intranode::WaitPolicy::shared_core();
  }

  // Keeps the first reason.
  bool refuse(int result, std::string sentence) {
    if (refusal_.result == OUTRIGGER_GROUP_OK) refusal_ = {.result = result, .sentence = std::move(sentence)};
    return false;
  }

  const struct outrigger_group_config& config_;
  std::int64_t timeout_ms_;
  Refusal& refusal_;
  std::vector<Whereabouts> all_;
  std::vector<std::pair<std::uint32_t, MemberProcesses>> known_;  // other members on this machine, by rank
  std::unique_ptr<Assembly> assembly_;                            // once the others may count on this member
  Failure death_{};
  bool has_told_ = false;     // whether it has attached
  bool is_to_start_ = false;  // others wait for this member to start the service process of its node
  UniqueFd control_;          // open until all have attached
  UniqueFd area_;
  UniqueFd service_fd_;
  std::optional<ServiceArea> service_;
  std::vector<Place> places_;  // of a group on several nodes
  std::optional<Listener> listener_;
};

}  // namespace

std::unique_ptr<Assembly> assemble(const struct outrigger_group_config& config, std::int64_t timeout_ms,
                                   Refusal& refusal) {
  return Assembler(config, timeout_ms, refusal).run();
}

}  // namespace outrigger::group
