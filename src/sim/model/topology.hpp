// A cluster's ports, and the route of bytes from one memory to another.
//
//   host memory ─ PCIe ─┐
//                       ├─ card ═ switches ═ card ─ ...
//   DPU memory ─────────┘
//
// Memory has one port for reads and one for writes, each with half its rate, so that routes use ports in one order. A
// fat tree's leaf has one port up and one down, each with the rate of all its uplinks: routes are assumed to be spread
// evenly. A dragonfly's router has one port to all others of its group, and each group one to each other group.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/cluster.hpp"
#include "sim/model/model_network.hpp"

namespace outrigger::sim::model {

// Where bytes are.
enum class Memory : std::uint8_t { host, dpu };

struct Place {
  std::uint32_t node = 0;
  Memory memory = Memory::host;
};

class Topology {
 public:
  // Adds the ports of all nodes and switches. `cluster` must outlive it.
  Topology(const Cluster& cluster, std::uint32_t nodes, Network& network);

  // For bytes that a network card moves. Within a node they turn round in the card.
  [[nodiscard]] Route route(Place from, Place to) const;
  // For bytes that a core of the node copies: both read and written.
  [[nodiscard]] Route copy(std::uint32_t node) const;

  [[nodiscard]] PortId card_out(std::uint32_t node) const { return nodes_[node].card_out; }
  [[nodiscard]] PortId card_in(std::uint32_t node) const { return nodes_[node].card_in; }

 private:
  struct NodePorts {
    PortId copy_out = 0;
    PortId memory_out = 0;  // of the host, read
    PortId memory_in = 0;   // written
    PortId pcie_out = 0;    // from the host
    PortId pcie_in = 0;
    PortId dpu_out = 0;  // from the DPU's memory
    PortId dpu_in = 0;
    PortId card_out = 0;
    PortId card_in = 0;
  };
  void add_node();
  void add_switches(std::uint32_t nodes);
  void leave(Place from, Route& route) const;
  void enter(Place to, Route& route) const;
  void cross(std::uint32_t from, std::uint32_t to, Route& route) const;
  void cross_dragonfly(std::uint32_t from, std::uint32_t to, Route& route) const;

  const Cluster& cluster_;
  Network& network_;
  std::vector<NodePorts> nodes_;
  // By leaf or router.
  std::vector<PortId> up_;
  std::vector<PortId> down_;
  std::vector<PortId> global_;  // by group, and group
  std::uint32_t groups_ = 0;
};

}  // namespace outrigger::sim::model
