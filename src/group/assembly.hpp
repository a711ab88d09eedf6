// How the members of a group come together. Those of a node share memory: the first one makes it, and the others open
// it by the process id and the descriptors that the store tells. It has no name, so nothing is left of it when the last
// member ends. Members of different nodes are connected.
#pragma once

#include <outrigger/group.h>

#include <optional>
#include <string>
#include <vector>

#include "group/group_area.hpp"
#include "group/layout.hpp"
#include "group/member_processes.hpp"
#include "group/nodes/connections.hpp"
#include "group/service/service_area.hpp"
#include "intranode/control_area.hpp"
#include "intranode/waiter.hpp"

namespace outrigger::group {

struct Assembly {
  Layout layout;
  intranode::ControlArea control;  // of the node
  GroupArea area;                  // of the node
  std::vector<pid_t> pids;         // of the members
  MemberProcesses processes;       // of the node
  intranode::WaitPolicy policy;    // do they have a core each?
  Listener::Connections connections{};
  std::optional<ServiceArea> service{};  // where a core is kept for the service process of each node
  std::optional<MemberProcesses> service_process{};
  std::vector<pid_t> service_pids{};  // by node
};

struct Refusal {
  int result = OUTRIGGER_GROUP_OK;
  std::string sentence;
};

// Collective. A member that cannot join tells the others, so that all of them are refused. `refusal` is set if nothing
// is returned.
[[nodiscard]] std::unique_ptr<Assembly> assemble(const struct outrigger_group_config& config, std::int64_t timeout_ms,
                                                 Refusal& refusal);

}  // namespace outrigger::group
