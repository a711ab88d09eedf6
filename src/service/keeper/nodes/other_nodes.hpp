// The keeper's messages with the keepers of other nodes while the job runs. It tells them when a service process of its
// node has been replaced, answers questions about that, and passes on what it receives to its own service processes. If
// the job ends without MPI_Finalize, it sends its ranks' counts to world rank 0's node.
//
// Keepers connect only when they have a message, to the ports in the job map, never at the start of a job. Both ends
// prove that they know the job's secret.
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
  // A message for one service process of this node, or (nullopt) for all.
  struct ForServices {
    ControlKind kind = ControlKind::peer_watched;
    std::vector<std::byte> packet;
    UniqueFd attached;  // invalid: none
  };

  // Both must outlive this.
  OtherNodes(const KeeperConfig& config, Events& events) : config_(config), events_(events) {}

  // Starts to listen. Returns the place for this node's descriptor.
  [[nodiscard]] KeeperPlace listen();
  // Takes the map of all nodes; this one is number `body.node`. A malformed map is left to the service processes to
  // report.
  void take_job_map(const SharedBytesBody& body, std::vector<std::byte> bytes);

  // A node's name, for people; empty: not known.
  [[nodiscard]] std::string name_of(std::uint32_t node) const;

  // False if it is known that other nodes cannot be told of a replacement.
  [[nodiscard]] bool can_be_notified() const;
  // A service process of this node has ended and is to be replaced. `how` it ended: for the message if others cannot be
  // told.
  void lost(std::uint32_t sp, std::string how);
  // Its replacement has this address.
  void moved(std::uint32_t sp, Epoch epoch, std::vector<std::byte> address);
  // A service process of another node does not answer.
  void ask(SpId sp, Clock::time_point now);

  // The job has ended here: sends the counts of this node's ranks to the keeper of world rank 0's node.
  void send_counts(std::vector<std::byte> counts, Clock::time_point now);
  [[nodiscard]] bool counts_are_sent() const;
  // Counts received so far, by node.
  [[nodiscard]] const std::map<std::uint32_t, std::vector<std::byte>>& counts() const { return counts_; }
  // The number of other nodes, 0 before the job map.
  [[nodiscard]] std::size_t others() const { return job_map_ ? job_map_->nodes.size() - 1 : 0; }

  // To be called when an event names another node, and at next_look().
  void work(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_look() const;
  // Messages for this node's service processes since the last call.
  [[nodiscard]] std::vector<ForServices> take_news();
  // Messages for a replacement: the job map, if it is here, and all moved peers.
  [[nodiscard]] std::vector<ForServices> for_a_new_one() const;
  // Why the job cannot continue.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
  // The job ends: only counts are sent and taken from now on.
  void close();

 private:
  struct Outgoing {
    NodeNews news;
    Clock::time_point deadline;
    bool sent = false;  // on the current connection
  };
  // The messages and the connection for one other node.
  struct Call {
    std::optional<NodeConnection> connection;
    std::size_t address = 0;     // the next one to try
    Clock::time_point next_try;  // earliest time
    Clock::time_point give_up;   // for the connection to make progress
    std::map<SpId, Outgoing> moved;
    std::map<SpId, Outgoing> asked;
    std::map<SpId, Outgoing> counts;  // by the first service process of the sending node
    [[nodiscard]] auto all() { return std::array{&moved, &asked, &counts}; }
    // Sends everything that was not sent on this connection. Needs a finished handshake.
    void send_new(Clock::time_point now);
    [[nodiscard]] bool has_business() const { return !moved.empty() || !asked.empty() || !counts.empty(); }
  };
  struct Incoming {
    NodeConnection connection;
    Clock::time_point came;
  };

  void send_to_all_nodes(std::uint32_t sp, Clock::time_point now);
  void accept(Clock::time_point now);
  void work_on(std::uint32_t node, Call& call, Clock::time_point now);
  void connect(std::uint32_t node, Call& call, Clock::time_point now);
  void hang_up(Call& call, Clock::time_point now);
  void read_answers(Call& call, Clock::time_point now);
  void expire(std::uint32_t node, Call& call, Clock::time_point now);
  void read_from(Incoming& incoming);
  // nullopt: it is not for this node, or comes too late.
  [[nodiscard]] std::optional<NodeNews> answer_to(NodeNews news);
  void watch(const NodeConnection& connection);

  const KeeperConfig& config_;
  Events& events_;
  UniqueFd listener_;
  std::optional<JobMap> job_map_;
  SharedBytesBody job_map_body_;
  std::vector<std::byte> job_map_bytes_;
  Secret secret_{};  // between keepers
  // A service process of this node that has been lost.
  struct Own {
    std::string how;
    Epoch epoch;                     // of the newest replacement; 0: it has no address yet
    std::vector<std::byte> address;  // the replacement's
  };
  std::map<std::uint32_t, Own> own_;     // by number on this node
  std::map<SpId, NodeNews> moved_;       // of other nodes: the newest message of each
  std::map<std::uint32_t, Call> calls_;  // by node
  std::list<Incoming> incoming_;
  std::map<std::uint32_t, std::vector<std::byte>> counts_;  // by node
  std::vector<ForServices> news_;
  std::optional<std::string> failure_;
  bool closed_ = false;
};

}  // namespace outrigger::service
