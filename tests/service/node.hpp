// A node inside one test process: keeper and service processes as threads, ranks as clients.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/start/attach.hpp"
#include "service/keeper/keeper.hpp"
#include "service/keeper/supervise/starter.hpp"
#include "service/loop/service.hpp"
#include "service/notices/log.hpp"

namespace outrigger::testing {

inline std::string fresh_socket_name() {
  static std::atomic<unsigned> next{0};
  return "outrigger-test-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

inline sockaddr_un abstract_address(const std::string& name, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

inline UniqueFd listen_on(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t bytes = 0;
  const sockaddr_un address = abstract_address(name, bytes);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 || ::listen(fd.get(), 64) != 0)
    fd.reset();
  return fd;
}

inline UniqueFd connect_to(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t bytes = 0;
  const sockaddr_un address = abstract_address(name, bytes);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) fd.reset();
  return fd;
}

// Service processes and keepers set these variables unless they are set (fabric/ucx/worker.cpp,
// service/placement/cores.cpp). As threads of one test they share an environment, which must not change while others
// read it, so it is set here first.
inline void set_what_service_processes_set() {
  for (const auto& [name, value] : {std::pair{"UCX_TCP_CONN_NB", "y"},
                                    {"UCX_TCP_MAX_IOV", "2"},
                                    {"UCX_TCP_TX_SEG_SIZE", "64k"},
                                    {"HWLOC_PLUGINS_PATH", "/dev/null"}}) {
    (void)::setenv(name, value, 0);
  }
}

// Service processes as threads.
class ThreadStarter final : public service::ServiceStarter {
 public:
  ~ThreadStarter() override { stop_all(); }
  [[nodiscard]] Result<service::StartedService> start(std::uint32_t) override {
    set_what_service_processes_set();
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) return Error{"no sockets"};
    threads_.emplace_back([control = UniqueFd(fds[1])]() mutable {
      service::Service service(std::move(control));
      (void)service.run();
    });
    service::StartedService started;
    started.control.reset(fds[0]);
    return started;
  }
  [[nodiscard]] bool is_stopped(std::uint32_t) override { return false; }
  [[nodiscard]] int state_event() const override { return -1; }
  void clear_state_event() override {}
  [[nodiscard]] std::string how_it_ended(std::uint32_t) override { return "ended"; }
  void stop_all() override {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  std::vector<std::thread> threads_;
};

struct NodeOptions {
  std::uint32_t ranks = 2;
  std::uint32_t services = 1;
  std::vector<int> service_cpus;
  service::Claimant claims;
  std::uint32_t reach_allowed = kReachAll;
  std::uint32_t init_timeout_ms = 40000;
  // in a job of several nodes
  std::uint32_t world_size = 0;  // 0: as many as ranks
  std::uint32_t first_world_rank = 0;
  std::uint32_t nodes = 1;
  std::uint32_t number_here = 0;
};

class Node {
 public:
  explicit Node(const NodeOptions& options) : options_(options) {
    service::start_log("test");
    const std::string name = fresh_socket_name();
    std::memcpy(address_.name.data(), name.data(), name.size());
    for (std::size_t i = 0; i < kSecretBytes; ++i) address_.secret[i] = static_cast<std::uint8_t>(i * 7 + 1);
    service::KeeperConfig config;
    config.world_size = world_size();
    config.nodes = options.nodes;
    config.keepers_here = options.nodes;
    config.number_here = options.number_here;
    config.local_size = options.ranks;
    config.services = options.services;
    config.service_cpus = options.service_cpus;
    config.claims = options.claims;
    config.reach_allowed = options.reach_allowed;
    config.init_timeout_ms = options.init_timeout_ms;
    config.end_ranks = false;
    config.secret = address_.secret;
    keeper_ = std::make_unique<service::Keeper>(std::move(config), listen_on(name), starter_);
    thread_ = std::thread([this] { status_ = keeper_->run(); });
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    keeper_->stop();
    finish();
  }

  [[nodiscard]] const client::KeeperAddress& address() const { return address_; }
  [[nodiscard]] std::string name() const { return address_.name.data(); }
  [[nodiscard]] std::uint32_t world_size() const {
    return options_.world_size == 0 ? options_.ranks : options_.world_size;
  }

  [[nodiscard]] client::AttachOptions attach_options(std::uint32_t rank) const {
    client::AttachOptions attach;
    attach.keeper = address_;
    attach.world_rank = WorldRank{options_.first_world_rank + rank};
    attach.world_size = world_size();
    attach.local_rank = rank;
    attach.local_size = options_.ranks;
    return attach;
  }

  // All ranks, concurrently: attach() waits for all of them.
  [[nodiscard]] std::vector<Result<client::AttachedEndpoint>> attach_all() const {
    std::vector<Result<client::AttachedEndpoint>> clients;
    for (std::uint32_t i = 0; i < options_.ranks; ++i) clients.emplace_back(Error{"not attached"});
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < options_.ranks; ++i) {
      threads.emplace_back([&, i] { clients[i] = client::attach(attach_options(i)); });
    }
    for (std::thread& thread : threads) thread.join();
    return clients;
  }

  // Waits for the keeper to end by itself.
  int finish() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  NodeOptions options_;
  client::KeeperAddress address_;
  ThreadStarter starter_;
  std::unique_ptr<service::Keeper> keeper_;
  std::thread thread_;
  int status_ = 0;
};

}  // namespace outrigger::testing
