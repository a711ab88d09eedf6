#include "fabric/ucx/route.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace outrigger::fabric::ucx {
namespace {

class Nothing final : public WorkerEvents {
  ucs_status_t arrived(std::span<const std::byte> /*header*/, void* /*data*/, std::size_t /*bytes*/,
                       bool /*rendezvous*/) override {
    return UCS_OK;
  }
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

WireRoute route_over(const Lanes& lanes) {
  const bool moves_memory = !lanes.memory.empty();
  return make_wire_route(moves_memory, joined(moves_memory ? lanes.memory : lanes.messages));
}

Result<WireRoute> probe_route(const std::string& transports) {
  static Nothing nothing;
  static bool broken = false;
  Result<Context> context = Context::open(transports);
  if (!context) return Error{context.error()};
  // Never closed: UCX 1.13 aborts when that happens while a connection is being made.
  auto* kept_context = new Context(std::move(context).value());
  Result<Worker> worker = Worker::open(*kept_context, nothing);
  if (!worker) return Error{worker.error()};
  auto* kept_worker = new Worker(std::move(worker).value());
  Result<Endpoint> endpoint = Endpoint::open(*kept_worker, kept_worker->address(), broken);
  if (!endpoint) return Error{endpoint.error()};
  Lanes lanes = (new Endpoint(std::move(endpoint).value()))->lanes();
  // Which device leads to others is not known from here.
  std::ranges::replace(lanes.messages, "tcp/lo", "tcp");
  return route_over(lanes);
}

}  // namespace outrigger::fabric::ucx
