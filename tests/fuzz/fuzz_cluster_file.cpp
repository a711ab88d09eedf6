// Cluster files and quantities against arbitrary text and against nearly valid files. Accepted files must have valid
// values, for example rates above 0. Rejected files must give a reason.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sim/model/cluster.hpp"
#include "sim/model/quantity.hpp"

namespace {

using namespace outrigger::sim::model;

void check_rate(double bytes_per_s) {
  if (!std::isfinite(bytes_per_s) || bytes_per_s <= 0) std::abort();
}

void check_file(const std::string& text) {
  const outrigger::Result<Cluster> cluster = parse_cluster(text, "f.toml");
  if (!cluster) {
    if (cluster.error().empty()) std::abort();
    return;
  }
  const Cluster& read = cluster.value();
  if (read.nodes == 0 || read.host.cores == 0 || read.service.per_node == 0) std::abort();
  if (read.network.nodes_per_leaf == 0 || read.network.routers_per_group == 0 || read.network.chunk_bytes == 0) {
    std::abort();
  }
  check_rate(read.host.memory_bytes_per_s);
  check_rate(read.network.link_bytes_per_s);
  check_rate(read.network.taper);
  check_rate(read.service.copy_bytes_per_s);
}

void check_quantity(const std::string& text) {
  if (const auto time = parse_time_ns(text); !time && time.error().empty()) std::abort();
  if (const auto bytes = parse_bytes(text); !bytes && bytes.error().empty()) std::abort();
  if (const auto rate = parse_bytes_per_s(text); rate ? !std::isfinite(rate.value()) : rate.error().empty())
    std::abort();
}

const std::string kGood = R"(name="x"
nodes=4
[host]
cores=2
memory="20 GB/s"
copy="10 GB/s"
reduce="5 GB/s"
[mpi]
message="5 us"
post="5 us"
eager="64 KiB"
thread_switch="5 us"
[network]
topology="switch"
wire="memory"
link="1 Gbit/s"
message="0 ns"
latency="15 us"
hop="5 us"
queue="0 B"
chunk="64 KiB"
[service]
placement="host_core"
reach="direct"
per_node=1
own_core=true
ranks_copy=false
notice="1 us"
event="2 us"
message="8 us"
move="2 us"
mark="0.2 us"
copy="10 GB/s"
reduce="5 GB/s"
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);  // NOLINT: bytes as text
  check_quantity(text);
  check_file(text);
  if (size < 3) return 0;
  std::string nearly = kGood;
  nearly.replace((std::size_t{data[0]} | std::size_t{data[1]} << 8U) % nearly.size(), data[2] % 8, text.substr(3));
  check_file(nearly);
  return 0;
}
