// Communicators as a coordinator knows them: their members, their votes, the change and the trial that are under way.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "steer/coordinator/coordinator_context.hpp"

namespace outrigger::steer {

using Members = std::shared_ptr<const std::vector<WorldRank>>;

// A change that is under way, at the leader.
struct ChangeUnderWay {
  DispatchPlan to;
  std::set<SpId> awaited;  // service processes that hold their ranks
  bool possible = true;
  std::uint64_t least = ~std::uint64_t{0};  // calls that some rank has begun
  std::uint64_t most = 0;
};

// The times that this service process's ranks have measured in a trial.
struct LocalTimes {
  std::uint16_t trial = 0;
  std::set<WorldRank> ranks;  // that have measured
  std::optional<TrialTimes> sum;
};

// For one kind of call, at the leader.
struct TriedMethods {
  std::uint32_t next = 0;     // of the candidates, to be tried
  std::uint32_t natives = 0;  // trials in a row that spoke for the MPI
};

// The trials of a communicator, at the leader.
struct TrialRecord {
  std::uint16_t last_number = 0;
  std::map<CallKey, TriedMethods> tried;
  // For the trial that is under way.
  std::uint32_t candidates = 0;  // for its kind of call
  std::set<SpId> awaited;        // service processes whose ranks have not all measured
  std::optional<TrialTimes> sum;
  bool spoiled = false;  // its calls were suspended for a while
};

struct Communicator {
  GroupId id;
  Members members;               // nullptr: only other service processes have named it
  std::vector<SpId> services;    // that serve members, ascending
  std::vector<WorldRank> local;  // members served here
  std::set<WorldRank> freed;     // local members that have freed it

  bool steered = false;  // a call goes by its plan
  bool failing = false;  // a service process has voted to offload nothing
  Suspended own;         // this service process's vote for this communicator
  Suspended told;        // the vote that the leader has received
  LocalTimes measured;

  // The rest at the leader.
  std::map<SpId, Suspended> votes;
  DispatchPlan wanted;  // what is to be tried, and what has been decided; it knows of no suspension
  TrialRecord trials;
  PlanChange plan;           // in force
  std::uint64_t number = 0;  // of the last change
  std::optional<ChangeUnderWay> changing;
  std::uint32_t failures = 0;  // changes in a row that were not possible
  std::uint32_t pauses = 0;    // retries to leave out

  [[nodiscard]] bool serves_members(SpId service) const;
  [[nodiscard]] bool has_local(WorldRank rank) const;
};

// Communicators in use, and ids of those that local ranks have freed: late votes on these are ignored.
class Communicators {
 public:
  // Freed ones remembered. At the limit the oldest is forgotten; a late vote on it is then kept without use.
  static constexpr std::size_t kMostForgotten = 4096;

  explicit Communicators(Context& context) : context_(context) {}

  [[nodiscard]] Communicator& get(const GroupId& id);  // made when there is none
  [[nodiscard]] Communicator* find(const GroupId& id);
  // With these members, which a local rank has named. nullptr: they make no sense.
  [[nodiscard]] Communicator* find(const GroupId& id, const Members& members);
  [[nodiscard]] std::unordered_map<GroupId, Communicator>& all() { return communicators_; }
  [[nodiscard]] bool is_forgotten(const GroupId& id) const {
    return forgotten_.contains(id) && !communicators_.contains(id);
  }

  // This service process serves the first rank, and so leads.
  [[nodiscard]] bool leads(const Communicator& communicator) const {
    return communicator.members != nullptr && leader_of(communicator) == context_.config.self;
  }
  [[nodiscard]] SpId leader_of(const Communicator& communicator) const {
    return context_.service_of(communicator.members->front());
  }

  // Its state goes when every local member has freed it or is gone, and nothing is under way.
  void close_if_freed(Communicator& communicator);

 private:
  Context& context_;
  std::unordered_map<GroupId, Communicator> communicators_;
  std::unordered_map<GroupId, std::set<WorldRank>> forgotten_;  // who has freed them
  std::deque<GroupId> forgotten_order_;
};

}  // namespace outrigger::steer
