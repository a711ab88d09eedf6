// A cluster as the performance model sees it: rates, latencies and costs, read from a TOML file.
//
// clusters/README.md explains each key. Rates are bytes per second, times are whole nanoseconds.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace outrigger::sim::model {

enum class TopologyKind : std::uint8_t {
  one_switch,  // all nodes at one switch that never limits
  fat_tree,    // two levels; a leaf's uplinks together have the rate of `nodes_per_leaf` links divided by `taper`
  dragonfly,   // groups of routers; one link between two groups, minimal routes
};

// How bytes move between nodes.
enum class WireKind : std::uint8_t {
  memory,     // the network moves memory to memory (RDMA)
  processor,  // a processor at each end carries them (sockets)
};

enum class Placement : std::uint8_t {
  host_core,  // service processes on a core of the host
  dpu,        // on a DPU's cores, in front of the host's PCIe
};

// How a service process makes the network move ranks' memory.
enum class ServiceReach : std::uint8_t {
  direct,  // from one rank's memory to the other's
  staged,  // through memory beside the service process, chunk by chunk
};

// How ranks wait in MPI calls; matters if they share cores.
enum class Waiting : std::uint8_t {
  unknown,  // unspecified: each rank has a core
  yields,   // a computing process gets the core
  spins,    // waiting ranks use their share of the core
};

// The MPI family whose thresholds native collectives use.
enum class MpiFamily : std::uint8_t { mpich, openmpi };

struct HostModel {
  std::uint32_t cores = 1;        // per node, for ranks
  double memory_bytes_per_s = 0;  // per node, reads and writes together
  double copy_bytes_per_s = 0;    // one core's copy
  double missed_bytes_per_s = 0;  // copying data that is in no cache; 0: by memory_bytes_per_s
  double reduce_bytes_per_s = 0;  // one core's reduction of two vectors, in bytes of the result
  double socket_bytes_per_s = 0;  // one core, at either end; only for WireKind::processor
  std::uint32_t processors = 0;   // nodes are parts of one machine with this many cores; 0: each node is a machine
  Waiting waiting = Waiting::unknown;
  std::uint64_t switch_ns = 0;    // for a process to get a core that others share
  std::uint64_t cache_bytes = 0;  // per node: buffers that fit into it load no memory
};

struct MpiModel {
  MpiFamily family = MpiFamily::mpich;
  std::uint64_t post_ns = 0;           // until a nonblocking collective has been posted
  std::uint64_t message_ns = 0;        // a core's time for each message that it sends or receives
  std::uint64_t eager_bytes = 0;       // largest message that is sent before it is asked for
  std::uint64_t rendezvous_ns = 0;     // within a node: extra time of a longer one
  double copy_bytes_per_s = 0;         // within a node: from one rank's memory to another's; 0: as the host's
  double eager_bytes_per_s = 0;        // ... each of the two copies of a short one; 0: as copy_bytes_per_s
  double missed_bytes_per_s = 0;       // copying data that is in no cache; 0: by host.memory_bytes_per_s
  std::uint64_t thread_switch_ns = 0;  // extra time per message handled by a progress thread
};

struct PcieModel {
  bool present = false;
  double bytes_per_s = 0;  // each way
  std::uint64_t latency_ns = 0;
};

struct NetworkModel {
  TopologyKind topology = TopologyKind::one_switch;
  WireKind wire = WireKind::memory;
  double link_bytes_per_s = 0;       // per node, each way
  std::uint64_t message_ns = 0;      // of the network card, per message
  std::uint64_t latency_ns = 0;      // of the network card and its cable, at each end
  std::uint64_t hop_ns = 0;          // per switch
  std::uint64_t queue_bytes = 0;     // in front of each port; when it is full the previous port waits; 0: no limit
  std::uint64_t burst_bytes = 0;     // of a link that a token bucket limits
  std::uint64_t chunk_bytes = 0;     // transfers take turns by chunks of this size
  std::uint32_t nodes_per_leaf = 1;  // of a fat tree; in a dragonfly: per router
  double taper = 1;                  // of a fat tree
  std::uint32_t routers_per_group = 1;
  double local_bytes_per_s = 0;   // between two routers of a group
  double global_bytes_per_s = 0;  // between two groups
};

struct ServiceModel {
  Placement placement = Placement::host_core;
  ServiceReach reach = ServiceReach::direct;
  std::uint32_t per_node = 1;
  bool own_core = true;          // false: ranks compute on its core and lose the time it takes
  std::uint32_t processors = 0;  // own cores shared by the service processes of all nodes; 0: one each
  // Waiting ranks copy within the node; if service processes have no core, only ranks copy. On a DPU it is the default.
  bool ranks_copy = false;
  std::uint32_t copy_cores = 0;   // on a DPU: cores of the host on which ranks' copiers work
  std::uint64_t notice_ns = 0;    // from a rank to its service process, and back
  std::uint64_t event_ns = 0;     // per post, message and end of a move that it handles
  std::uint64_t message_ns = 0;   // per batch of messages that it sends to a peer
  std::uint64_t move_ns = 0;      // to begin a move, or a chunk of it
  std::uint64_t mark_ns = 0;      // per delivered mark and completion
  double copy_bytes_per_s = 0;    // its core's copy; on a host core also that of a rank that copies for it
  double missed_bytes_per_s = 0;  // copying data that is in no cache; 0: by host.memory_bytes_per_s
  double reduce_bytes_per_s = 0;
  double memory_bytes_per_s = 0;     // of the DPU
  std::uint64_t dpu_latency_ns = 0;  // between the DPU's memory and its network card

  // Service processes without a core need two copies: the memory is private to the ranks.
  [[nodiscard]] bool relays() const { return ranks_copy && !own_core; }
};

struct NoiseModel {
  std::uint64_t skew_ns = 0;  // ranks begin an operation within this time
  double work = 0;            // computation takes longer by an exponential with this mean, as a share of itself
};

struct Cluster {
  std::string name;
  std::uint32_t nodes = 1;
  HostModel host;
  MpiModel mpi;
  PcieModel pcie;
  NetworkModel network;
  ServiceModel service;
  NoiseModel noise;
};

// Error: all problems of the file, one per line: file:line, key, what is allowed.
[[nodiscard]] Result<Cluster> parse_cluster(const std::string& text, const std::string& file_name);
[[nodiscard]] Result<Cluster> read_cluster(const std::string& path);

}  // namespace outrigger::sim::model
