// A keeper's part in what goes on with the service processes of other nodes while the job runs: it tells the keepers of
// the other nodes when another service process has taken the place of one of its own, and answers when they ask whether
// it is there; it hands what it is told to its own service processes, and to those that take the place of these. Where
// the job ends without MPI_Finalize it tells that of world rank 0's node what its ranks have counted.
//
// Keepers connect when there is something to say, to the ports that stand in the job map; nothing of this happens at
// the start of a job. Whoever calls and is called proves that it knows the job's secret.
//
// Thread rule: one thread. Nothing here blocks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/wire/job_map.hpp"
#include "protocol/wire/node_news.hpp"
#include "service/keeper/events.hpp"
#include "service/keeper/keeper_config.hpp"
#include "service/keeper/nodes/node_connection.hpp"

namespace outrigger::service {

class OtherNodes {
 public:
  using Clock = std::chrono::steady_clock;
  // Who is told: one service process of this node, or (nothing) all.
  struct ForServices {
    ControlKind kind = ControlKind::peer_watched;
    std::vector<std::byte> packet;
    UniqueFd attached;  // invalid: nothing
  };

  // Both must outlive this.
  OtherNodes(const KeeperConfig& config, Events& events) : config_(config), events_(events) {}

  // Listens from now on. Where: for this node's descriptor.
  [[nodiscard]] KeeperPlace listen();
  // All nodes', of which this one is number `body.node`. What is none is for service processes to complain of.
  void take_job_map(const SharedBytesBody& body, std::vector<std::byte> bytes);

  // Of a node, for people; empty: nobody has said it here, or there is none of that number.
  [[nodiscard]] std::string name_of(std::uint32_t node) const;

  // Can others be told of a service process that takes the place of another? As far as is known.
  [[nodiscard]] bool can_be_told() const;
  // A service process of this node has ended, and another one is to take its place. How: should others not be told.
  void lost(std::uint32_t sp, std::string how);
  // The one in its place is to be reached there.
  void moved(std::uint32_t sp, Epoch epoch, std::vector<std::byte> address);
  // One of another node does not answer.
  void ask(SpId sp, Clock::time_point now);

  // The job has ended here: what the ranks of this node have counted, for the keeper of world rank 0's node.
  void tell_counts(std::vector<std::byte> counts, Clock::time_point now);
  [[nodiscard]] bool counts_are_told() const;
  // Of the other nodes, as they have come.
  [[nodiscard]] const std::map<std::uint32_t, std::vector<std::byte>>& counts() const { return counts_; }
  // How many others there are, as far as is known.
  [[nodiscard]] std::size_t others() const { return job_map_ ? job_map_->nodes.size() - 1 : 0; }

  // Gets on with all of it: when an event names another node, and at next_look().
  void work(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_look() const;
  // What all service processes of this node are to be told since the last call.
  [[nodiscard]] std::vector<ForServices> take_news();
  // What one that takes the place of another is to be told: the job map, where it is here, and who has moved.
  [[nodiscard]] std::vector<ForServices> for_a_new_one() const;
  // Why the job cannot go on.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
  // The job ends: nothing but counts is told and taken any more.
  void close();

 private:
  struct Telling {
    NodeNews news;
    Clock::time_point deadline;
    bool sent = false;  // by the connection that there is
  };
  // Of another node that there is something to say to.
  struct Call {
    std::optional<NodeConnection> connection;
    std::size_t address = 0;     // the next to be tried
    Clock::time_point next_try;  // not before
    Clock::time_point give_up;   // the connection, unless it gets on until then
    std::map<SpId, Telling> moved;
    std::map<SpId, Telling> asked;
    std::map<SpId, Telling> counts;  // by the first service process of this node
    [[nodiscard]] auto all() { return std::array{&moved, &asked, &counts}; }
    // Once the connection is greeted: what has not been said by it.
    void say(Clock::time_point now);
    [[nodiscard]] bool has_business() const { return !moved.empty() || !asked.empty() || !counts.empty(); }
  };
  struct Visitor {
    NodeConnection connection;
    Clock::time_point came;
  };

  void tell_all_of(std::uint32_t sp, Clock::time_point now);
  void accept(Clock::time_point now);
  void work_on(std::uint32_t node, Call& call, Clock::time_point now);
  void connect(std::uint32_t node, Call& call, Clock::time_point now);
  void hang_up(Call& call, Clock::time_point now);
  void hear_answers(Call& call, Clock::time_point now);
  void expire(std::uint32_t node, Call& call, Clock::time_point now);
  void hear(Visitor& visitor);
  // Nothing: it is not for this node, or comes too late.
  [[nodiscard]] std::optional<NodeNews> answer_to(NodeNews news);
  void watch(const NodeConnection& connection);

  const KeeperConfig& config_;
  Events& events_;
  UniqueFd listener_;
  std::optional<JobMap> job_map_;
  SharedBytesBody job_map_body_;
  std::vector<std::byte> job_map_bytes_;
  Secret secret_{};  // between keepers
  // Of those of this node that have been lost.
  struct Own {
    std::string how;
    Epoch epoch;                     // of the newest in its place; 0: it is not to be reached yet
    std::vector<std::byte> address;  // of it
  };
  std::map<std::uint32_t, Own> own_;     // by number on this node
  std::map<SpId, NodeNews> moved_;       // of other nodes, the newest of each
  std::map<std::uint32_t, Call> calls_;  // by node
  std::list<Visitor> visitors_;
  std::map<std::uint32_t, std::vector<std::byte>> counts_;  // by node
  std::vector<ForServices> news_;
  std::optional<std::string> failure_;
  bool closed_ = false;
};

}  // namespace outrigger::service
