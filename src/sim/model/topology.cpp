#include "sim/model/topology.hpp"

#include <cassert>

namespace outrigger::sim::model {
namespace {

std::uint32_t divided_up(std::uint32_t number, std::uint32_t by) {
  return (number + by - 1) / by;
}

}  // namespace

Topology::Topology(const Cluster& cluster, std::uint32_t nodes, Network& network)
    : cluster_(cluster), network_(network) {
  for (std::uint32_t node = 0; node < nodes; ++node) add_node();
  add_switches(nodes);
}

void Topology::add_node() {
  const NetworkModel& net = cluster_.network;
  NodePorts ports;
  ports.memory_out = network_.add_port({cluster_.host.memory_bytes_per_s / 2, 0, 0, 0});
  // A card asks memory for no more than it takes, so its reads do not hold up those of cores.
  ports.copy_out = network_.add_port({cluster_.host.memory_bytes_per_s / 2, 0, 0, 0});
  ports.memory_in = network_.add_port({cluster_.host.memory_bytes_per_s / 2, 0, 0, net.queue_bytes});
  if (cluster_.pcie.present) {
    // Latency counts once, with the bytes; the request before is a control message.
    const PortModel pcie{cluster_.pcie.bytes_per_s, 0, cluster_.pcie.latency_ns, net.queue_bytes};
    ports.pcie_out = network_.add_port(pcie);
    ports.pcie_in = network_.add_port(pcie);
  }
  if (cluster_.service.placement == Placement::dpu) {
    const PortModel memory{cluster_.service.memory_bytes_per_s, 0, cluster_.service.dpu_latency_ns, net.queue_bytes};
    ports.dpu_out = network_.add_port(memory);
    ports.dpu_in = network_.add_port(memory);
  }
  // The source's card reads at most one chunk ahead; at the other end the switch port's queue counts.
  ports.card_out =
      network_.add_port({net.link_bytes_per_s, net.message_ns, net.latency_ns, net.queue_bytes, net.burst_bytes});
  ports.card_in =
      network_.add_port({net.link_bytes_per_s, 0, net.hop_ns + net.latency_ns, net.queue_bytes, net.burst_bytes});
  nodes_.push_back(ports);
}

void Topology::add_switches(std::uint32_t nodes) {
  const NetworkModel& net = cluster_.network;
  const std::uint32_t leaves = divided_up(nodes, net.nodes_per_leaf);
  if (net.topology == TopologyKind::fat_tree) {
    const double rate = net.link_bytes_per_s * net.nodes_per_leaf / net.taper;
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
      up_.push_back(network_.add_port({rate, 0, net.hop_ns, net.queue_bytes}));
      down_.push_back(network_.add_port({rate, 0, net.hop_ns, net.queue_bytes}));
    }
  }
  if (net.topology != TopologyKind::dragonfly) return;
  groups_ = divided_up(leaves, net.routers_per_group);
  const std::uint32_t peers = net.routers_per_group > 1 ? net.routers_per_group - 1 : 1;
  for (std::uint32_t router = 0; router < leaves; ++router) {
    up_.push_back(network_.add_port({net.local_bytes_per_s * peers, 0, net.hop_ns, net.queue_bytes}));
    down_.push_back(network_.add_port({net.local_bytes_per_s * peers, 0, net.hop_ns, net.queue_bytes}));
  }
  for (std::uint32_t pair = 0; pair < groups_ * groups_; ++pair) {
    global_.push_back(network_.add_port({net.global_bytes_per_s, 0, net.hop_ns, net.queue_bytes}));
  }
}

void Topology::leave(Place from, Route& route) const {
  const NodePorts& ports = nodes_[from.node];
  if (from.memory == Memory::dpu) {
    route.add(ports.dpu_out);
    return;
  }
  route.add(ports.memory_out);
  if (cluster_.pcie.present) route.add(ports.pcie_out);
}

void Topology::enter(Place to, Route& route) const {
  const NodePorts& ports = nodes_[to.node];
  if (to.memory == Memory::dpu) {
    route.add(ports.dpu_in);
    return;
  }
  if (cluster_.pcie.present) route.add(ports.pcie_in);
  route.add(ports.memory_in);
}

void Topology::cross(std::uint32_t from, std::uint32_t to, Route& route) const {
  if (cluster_.network.topology == TopologyKind::dragonfly) return cross_dragonfly(from, to, route);
  const std::uint32_t nodes_per_leaf = cluster_.network.nodes_per_leaf;
  if (up_.empty() || from / nodes_per_leaf == to / nodes_per_leaf) return;
  route.add(up_[from / nodes_per_leaf]);
  route.add(down_[to / nodes_per_leaf]);
}

void Topology::cross_dragonfly(std::uint32_t from, std::uint32_t to, Route& route) const {
  const std::uint32_t from_router = from / cluster_.network.nodes_per_leaf;
  const std::uint32_t to_router = to / cluster_.network.nodes_per_leaf;
  if (from_router == to_router) return;
  const std::uint32_t from_group = from_router / cluster_.network.routers_per_group;
  const std::uint32_t to_group = to_router / cluster_.network.routers_per_group;
  route.add(up_[from_router]);
  if (from_group == to_group) return;
  route.add(global_[from_group * groups_ + to_group]);
  route.add(down_[to_router]);
}

Route Topology::route(Place from, Place to) const {
  Route route;
  leave(from, route);
  if (from.node != to.node) {
    route.add(nodes_[from.node].card_out);
    cross(from.node, to.node, route);
    route.add(nodes_[to.node].card_in);
  }
  enter(to, route);
  return route;
}

Route Topology::copy(std::uint32_t node) const {
  Route route;
  route.add(nodes_[node].copy_out);
  route.add(nodes_[node].memory_in);
  return route;
}

}  // namespace outrigger::sim::model
