#include "service/keeper/observe/counts_of_nodes.hpp"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "report/node_counts.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

using Clock = OtherNodes::Clock;

// `outrigger run` waits a little longer for the keeper's files. Launchers end the ranks of other nodes within this
// time.
constexpr std::chrono::seconds kForOtherNodes{3};
constexpr std::chrono::milliseconds kBetweenLooksAtNodes{2};

template <class Condition>
void work_until(OtherNodes& nodes, const Condition& done) {
  const Clock::time_point deadline = Clock::now() + kForOtherNodes;
  while (!done() && Clock::now() < deadline) {
    nodes.work(Clock::now());
    std::this_thread::sleep_for(kBetweenLooksAtNodes);
  }
}

}  // namespace

void gather_counts(JobCounts& counts, OtherNodes& nodes) {
  nodes.close();
  if (counts.to_be_sent()) {
    nodes.send_counts(report::encode_node_counts(counts.of_this_node()), Clock::now());
    return work_until(nodes, [&nodes] { return nodes.counts_are_sent(); });
  }
  if (!counts.to_be_written()) return;
  work_until(nodes, [&nodes] { return nodes.counts().size() >= nodes.others(); });
  for (const auto& [node, bytes] : nodes.counts()) {
    if (std::optional<report::NodeCounts> told = report::decode_node_counts(bytes)) {
      counts.take_of_another_node(std::move(*told));
    } else {
      spdlog::error("node {} sent malformed counts of its ranks; this is a bug, please report it", nodes.name_of(node));
    }
  }
}

}  // namespace outrigger::service
