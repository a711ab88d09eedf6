// The service processes of a node as its keeper sees them, wherever they run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "service/keeper/keeper_config.hpp"
#include "service/keeper/ranks/local_ranks.hpp"
#include "service/keeper/supervise/service_processes.hpp"
#include "service/placement/service_placement.hpp"

namespace outrigger::service {

struct FetchedFromDpu;

class Services {
 public:
  using Clock = std::chrono::steady_clock;

  // All must outlive this.
  Services(const KeeperConfig& config, LocalRanks& ranks, Events& events)
      : config_(config), ranks_(ranks), events_(events) {}
  virtual ~Services() = default;
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  // To be called when all ranks are here. Starts the service processes, assigns the ranks, and introduces the ranks to
  // all; the answers are rank_attached messages. May block as long as a DPU takes to start them.
  [[nodiscard]] virtual Status start() = 0;
  // Passes on a rank's answer to an offered segment. Error: the rank was not asked.
  [[nodiscard]] virtual Status pass_rank_address(const LocalRank& rank, const SharedBytesBody& body,
                                                 const UniqueFd& fd);
  // All ranks are served.
  virtual void attached() {}
  virtual void stop() = 0;
  virtual void rank_left(const RankLeftBody& left) { tell_all(ControlKind::rank_left, left); }

  // Messages received; `event` is what woke the keeper.
  [[nodiscard]] virtual std::vector<ServiceMessage> receive(const Event& event) = 0;
  // When to call receive() again without an event.
  [[nodiscard]] virtual std::optional<Clock::time_point> next_look() const = 0;
  // nullopt: service processes on this node cannot replace them. Otherwise the time after which their operations are at
  // rest.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> replaceable_after() const { return std::nullopt; }
  // Why they cannot continue: the first reason.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

  // A warning for people while the job continues, once.
  [[nodiscard]] std::optional<std::string> take_warning() { return std::exchange(warning_, std::nullopt); }

  virtual void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) = 0;
  template <class T>
  void tell_all(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    for (std::uint32_t sp = 0; sp < count(); ++sp) send(sp, encode_control(kind, body), fds);
  }
  // Passes a rank's region to all; the rank is told when all have answered. Errors are the rank's fault: malformed, or
  // its socket is full.
  [[nodiscard]] Status add_region(LocalRank& rank, RegionBody body, UniqueFd fd);
  [[nodiscard]] Status drop_region(LocalRank& rank, RegionBody body);
  // nullptr: they write events to the ranks' memory themselves, and shown() has their counters.
  [[nodiscard]] virtual FetchedFromDpu* fetched_from_dpu() { return nullptr; }
  [[nodiscard]] Status region_added(std::uint32_t sp, LocalRank& rank, const RegionAddedBody& body);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] const ServicePlace& place(std::uint32_t sp) const { return places_[sp]; }
  // Number of starts in this place.
  [[nodiscard]] virtual std::uint32_t times_started(std::uint32_t /*sp*/) const { return 1; }
  // 0: it is not a process of this machine, or does not run now.
  [[nodiscard]] virtual pid_t pid(std::uint32_t /*sp*/) const { return 0; }
  // Pages of this process and its predecessors on this node; nullptr if there are none.
  [[nodiscard]] virtual const ServicePages* shown(std::uint32_t /*sp*/) const { return nullptr; }
  // -1: it has no eventfd here.
  [[nodiscard]] virtual int doorbell(std::uint32_t sp) const = 0;

 protected:
  // The first message to each.
  [[nodiscard]] ConfigureBody configuration(std::uint32_t sp) const;
  void fail(std::string reason);
  void warn(std::string text) { warning_ = std::move(text); }
  // Error: why no region can be passed to them now.
  [[nodiscard]] virtual Status take_regions() const = 0;

  const KeeperConfig& config_;
  LocalRanks& ranks_;
  Events& events_;
  std::vector<ServicePlace> places_;
  bool instead_of_dpu_ = false;  // they replace service processes on a DPU

 private:
  std::optional<std::string> failure_;
  std::optional<std::string> warning_;
};

[[nodiscard]] std::string host_name();

}  // namespace outrigger::service
