#include "service/loop/other_nodes.hpp"

#include <chrono>
#include <utility>

namespace outrigger::service {
namespace {

constexpr std::chrono::milliseconds kFarewell{300};  // for the last messages

}  // namespace

Status OtherNodes::open(fabric::ucx::WireOptions options, fabric::NodeMemory& memory) {
  Result<std::unique_ptr<fabric::ucx::Wire>> opened = fabric::ucx::Wire::open(std::move(options), memory);
  if (!opened) return Error{opened.error()};
  wire_ = std::move(opened).value();
  return Done{};
}

Status OtherNodes::introduce(JobMap job_map, std::uint32_t node, std::uint32_t sp, fabric::Fabric& node_fabric) {
  self_ = SpId{job_map.first_sp[node] + sp};
  if (Status introduced = wire_->introduce(job_map, self_); !introduced) return introduced;
  job_map_ = std::move(job_map);
  cluster_.emplace(node_fabric, *wire_, *job_map_, self_);
  return Done{};
}

void OtherNodes::leave(fabric::ucx::Wire::Farewell farewell) {
  if (!job_map_) return;
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  wire_->say_goodbye(farewell);
  while (!wire_->all_sent() && std::chrono::steady_clock::now() < deadline) (void)wire_->progress();
}

}  // namespace outrigger::service
