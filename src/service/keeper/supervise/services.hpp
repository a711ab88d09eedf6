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

  // Once all ranks are here: brings them up, gives every rank one, and introduces the ranks to all of them. They answer
  // by rank_attached. May take as long as a DPU takes to start them.
  [[nodiscard]] virtual Status start() = 0;
  // A rank's answer to a segment that was offered to it. Error: it was not asked.
  [[nodiscard]] virtual Status pass_rank_address(const LocalRank& rank, const SharedBytesBody& body,
                                                 const UniqueFd& fd);
  // All ranks are served.
  virtual void attached() {}
  virtual void stop() = 0;
  virtual void rank_left(std::uint32_t world_rank) { tell_all(ControlKind::rank_left, RankBody{world_rank, 0}); }

  // What they have said; `event` is what has woken the keeper.
  [[nodiscard]] virtual std::vector<ServiceMessage> receive(const Event& event) = 0;
  // When to call receive() again, should nothing wake it.
  [[nodiscard]] virtual std::optional<Clock::time_point> next_look() const = 0;
  // Whether others on cores of this node can take all their places when they cannot go on, and how long after they have
  // been left alone: what they have under way is at rest then.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> replaceable_after() const { return std::nullopt; }
  // Why they cannot go on: the first reason.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

  // What people should know though the job goes on: once.
  [[nodiscard]] std::optional<std::string> take_warning() { return std::exchange(warning_, std::nullopt); }

  virtual void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) = 0;
  template <class T>
  void tell_all(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    for (std::uint32_t sp = 0; sp < count(); ++sp) send(sp, encode_control(kind, body), fds);
  }
  // A rank's region goes to all of them, and the rank hears once all have answered. Errors are the rank's: nonsense, or
  // it takes no answer.
  [[nodiscard]] Status add_region(LocalRank& rank, RegionBody body, UniqueFd fd);
  [[nodiscard]] Status drop_region(LocalRank& rank, RegionBody body);
  // Null: they write to ranks' memory for events themselves, and what they count is in shown().
  [[nodiscard]] virtual FetchedFromDpu* fetched_from_dpu() { return nullptr; }
  [[nodiscard]] Status region_added(std::uint32_t sp, LocalRank& rank, const RegionAddedBody& body);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] const ServicePlace& place(std::uint32_t sp) const { return places_[sp]; }
  // How often this one has been started.
  [[nodiscard]] virtual std::uint32_t times_started(std::uint32_t /*sp*/) const { return 1; }
  // 0: it is no process of this machine, or none at present.
  [[nodiscard]] virtual pid_t pid(std::uint32_t /*sp*/) const { return 0; }
  // What it and those before it in its place have shown here of themselves; null: nothing.
  [[nodiscard]] virtual const ServicePages* shown(std::uint32_t /*sp*/) const { return nullptr; }
  // -1: it is rung in another way.
  [[nodiscard]] virtual int doorbell(std::uint32_t sp) const = 0;

 protected:
  // What each has to know first.
  [[nodiscard]] ConfigureBody configuration(std::uint32_t sp) const;
  void fail(std::string reason);
  void warn(std::string text) { warning_ = std::move(text); }
  // Error: why no region can be handed to them now.
  [[nodiscard]] virtual Status take_regions() const = 0;

  const KeeperConfig& config_;
  LocalRanks& ranks_;
  Events& events_;
  std::vector<ServicePlace> places_;
  bool instead_of_dpu_ = false;  // ranks have been served by others on a DPU before

 private:
  std::optional<std::string> failure_;
  std::optional<std::string> warning_;
};

// The name of this machine, for people.
[[nodiscard]] std::string host_name();

}  // namespace outrigger::service
