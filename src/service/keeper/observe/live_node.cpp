#include "service/keeper/observe/live_node.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::service {
namespace {

void add_wire_routes(std::vector<WireRoute>& routes, const SegmentHeader& header) {
  const std::uint32_t count = std::min(header.wire_route_count.load(std::memory_order_acquire), kMaxWireRoutes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const WireRoute route = header.wire_routes[i];
    if (std::ranges::find(routes, route) == routes.end()) routes.push_back(route);
  }
}

report::LiveService service_of(const Services& services, std::uint32_t sp) {
  const ServicePlace& place = services.place(sp);
  report::LiveService found;
  found.number = sp;
  found.pid = services.pid(sp);
  found.cpu = place.cpu;
  found.core_is_free = place.core_share == copy::CoreShare::own;
  found.other_job = place.other_job;
  found.restarts = services.times_started(sp) - 1;
  const CoreUse use = found.pid > 0 ? core_use_of(found.pid) : CoreUse{};
  found.ran_ns = use.ran_ns;
  found.waited_ns = use.waited_ns;
  return found;
}

// Only nodes with traffic.
std::vector<report::LiveLink> links_of(const Services& services, const OtherNodes& nodes, const DpuFigures& of_dpu) {
  std::vector<report::LiveLink> all(kLinkPlaces);
  for (std::uint32_t sp = 0; sp < services.count(); ++sp) {
    const ServicePages* shown = services.shown(sp);
    for (std::size_t place = 0; shown != nullptr && place < all.size(); ++place) {
      all[place].sent_bytes += shown->links[place].sent_bytes.load(std::memory_order_relaxed);
      all[place].received_bytes += shown->links[place].received_bytes.load(std::memory_order_relaxed);
    }
  }
  for (const DpuLinkFigures& link : of_dpu.links) {
    all[link.node].sent_bytes += link.sent_bytes;
    all[link.node].received_bytes += link.received_bytes;
  }
  std::vector<report::LiveLink> used;
  for (std::uint32_t node = 0; node < all.size(); ++node) {
    if (all[node].sent_bytes + all[node].received_bytes == 0) continue;
    used.push_back({node, nodes.name_of(node), all[node].sent_bytes, all[node].received_bytes});
  }
  return used;
}

}  // namespace

CoreUse parse_schedstat(std::string_view text) {
  CoreUse use;
  const char* const end = text.data() + text.size();
  const auto [ran_end, ran_error] = std::from_chars(text.data(), end, use.ran_ns);
  if (ran_error != std::errc{} || ran_end == end || *ran_end != ' ') return {};
  const auto [waited_end, waited_error] = std::from_chars(ran_end + 1, end, use.waited_ns);
  return waited_error == std::errc{} ? use : CoreUse{};
}

CoreUse core_use_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/schedstat", pid));
  std::string line;
  std::getline(file, line);
  return parse_schedstat(line);
}

report::LiveNode live_node(const std::string& job, const JobCounts& counts, const LocalRanks& ranks,
                           const Services& services, const OtherNodes& nodes, const FiguresOfADpu& of_dpu) {
  report::LiveNode node;
  node.job = job.empty() ? "job" : job;
  node.host = host_name();
  node.keeper = ::getpid();
  node.uid = ::geteuid();
  node.at_ns = time_on(CLOCK_MONOTONIC).count();
  node.ranks = counts.live();
  for (std::uint32_t sp = 0; sp < services.count(); ++sp) node.services.push_back(service_of(services, sp));
  node.links = links_of(services, nodes, of_dpu.figures);
  node.dpu = {of_dpu.name, of_dpu.figures.read_bytes, of_dpu.figures.written_bytes};
  for (const LocalRank& rank : ranks) {
    if (!rank.present || !rank.segment.valid()) continue;
    const SegmentHeader& header = SegmentView(rank.segment.base()).header();
    add_wire_routes(node.wire, header);
    if (rank.sp >= node.services.size() || header.warned.load(std::memory_order_acquire) == 0) continue;
    node.services[rank.sp].warning = report::text_in(header.fatal_text);
  }
  return node;
}

}  // namespace outrigger::service
