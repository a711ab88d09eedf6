// Starts the keeper of a node.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "protocol/options/settings.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::client {

struct KeeperOptions {
  std::string daemon_path;  // of outriggerd
  std::uint32_t world_size = 0;
  std::uint32_t local_size = 0;    // ranks that will attach
  std::uint32_t nodes = 1;         // of the job
  std::uint32_t keepers_here = 1;  // nodes that this machine pretends to be
  std::uint32_t number_here = 0;   // number of this node among them, from 0
  std::uint32_t services = 0;      // service processes to start; 0: the keeper decides
  std::string service_cpus;        // "7" or "6,7": cores to pin them to; empty: cores free of ranks
  std::string claims;              // SCOPE:JOB, to publish its cores to other jobs; empty: not published
  std::uint32_t reach_allowed = kReachAll;
  // Time limit for the program to go to the background, and then for all local ranks to be served.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  std::string dpu;             // HOST:PORT of the `outriggerd dpu` for this node; empty: none
  std::vector<int> copy_cpus;  // of ranks' copiers beside a DPU; empty: none
  Secret dpu_secret{};
};

// Address of a node's keeper. Plain data, to be sent to the node's ranks.
struct KeeperAddress {
  std::array<char, 48> name{};  // abstract Unix socket, without the leading NUL, NUL terminated
  Secret secret{};
};

// A listener for a keeper that is still to be started: ranks can connect already. If it is closed unused, their
// connections end, and no other process can take the address.
struct KeeperListener {
  KeeperAddress address;
  UniqueFd socket;
};

[[nodiscard]] Result<KeeperListener> open_keeper_listener();

// Starts a keeper (double fork, own process group, no inherited descriptors or preload, affinity reset) and returns
// once it runs. The keeper ends by itself when no rank comes or all ranks have gone.
[[nodiscard]] Status start_keeper(const KeeperOptions& options, KeeperListener listener);
// With a listener of its own.
[[nodiscard]] Result<KeeperAddress> start_keeper(const KeeperOptions& options);

}  // namespace outrigger::client
