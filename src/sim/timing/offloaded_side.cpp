#include "sim/timing/offloaded_side.hpp"

#include <utility>

namespace outrigger::sim::timing {

OffloadedSide::OffloadedSide(model::Machine& machine, const Workload& workload)
    : machine_(machine), workload_(workload), numbering_(workload, machine.places.ranks()) {
  engine::EngineConfig config = machine.places.engine_config();
  model::ServiceWorld& world = *this;
  for (std::uint32_t sp = 0; sp < machine.places.services(); ++sp) {
    config.self = SpId{sp};
    services_.push_back(std::make_unique<model::Service>(machine, world, config));
  }
  for (std::uint32_t rank = 0; rank < machine.places.ranks(); ++rank) {
    ranks_.push_back(std::make_unique<Rank>(machine, machine.processors.of_ranks(machine.places.node_of(rank))));
  }
}

OffloadedSide::~OffloadedSide() = default;

// The rank copies its own block itself where it has one.
std::uint64_t OffloadedSide::own_block_ns(const Call& call) const {
  const bool has =
      call.collective != Collective::ibcast && !is_reduction(call.collective) && !is_of_neighbors(call.collective);
  const std::uint64_t bytes = call.by_distance.empty() ? call.bytes : call.by_distance.front();
  return has ? model::host_copy_ns(machine_, bytes) : 0;
}

void OffloadedSide::post(std::uint32_t rank, std::uint32_t number, std::uint32_t request,
                         std::function<void()> posted) {
  const Call& call = workload_.calls[number];
  const Numbering::Number id = numbering_.next(workload_, call, rank);
  model::Processor& core = machine_.processors.of_ranks(machine_.places.node_of(rank));
  const std::uint64_t call_ns = core.switch_to(ranks_[rank].get()) + machine_.cluster.mpi.post_ns;
  core.run(call_ns, [this, &call, id, rank, request, &core, posted = std::move(posted)] {
    machine_.time.after(machine_.cluster.service.notice_ns, [this, &call, id, rank, request] {
      engine::PostedOperation operation = timing::posted(workload_, call, rank, id.group, id.sequence);
      operation.slot = SlotIndex{request};
      services_[machine_.places.service_of(rank)]->post(std::move(operation));
    });
    core.run(own_block_ns(call), posted);
  });
}

// A look at the rank's own memory.
void OffloadedSide::test(std::uint32_t rank, std::function<void()> returned) {
  machine_.processors.of_ranks(machine_.places.node_of(rank))
      .run(machine_.cluster.service.mark_ns, std::move(returned));
}

void OffloadedSide::wait(std::uint32_t rank, bool inside) {
  Rank& state = *ranks_[rank];
  if (state.waits == inside) return;
  state.waits = inside;
  machine_.processors.of_ranks(machine_.places.node_of(rank)).poll(inside);
}

void OffloadedSide::completed(WorldRank rank, SlotIndex slot, bool ok) {
  failed_ = failed_ || !ok;
  // It sees that when its turn on its core comes.
  model::Processor& core = machine_.processors.of_ranks(machine_.places.node_of(rank.value()));
  const std::uint64_t turn_ns = ranks_[rank.value()]->waits ? core.switch_to(ranks_[rank.value()].get()) : 0;
  core.run(turn_ns, [this, rank, slot] { ended(rank.value(), slot.value()); });
}

bool OffloadedSide::copy_by_rank(WorldRank rank, std::uint64_t bytes, std::function<void()> done) {
  Rank& copier = *ranks_[rank.value()];
  if (!machine_.cluster.service.ranks_copy || !copier.waits) return false;
  copier.jobs.push_back(CopyJob{bytes, std::move(done)});
  if (copier.jobs.size() == 1) begin_copy(rank.value());
  return true;
}

void OffloadedSide::begin_copy(std::uint32_t rank) {
  Rank& copier = *ranks_[rank];
  const CopyJob& job = copier.jobs.front();
  const std::uint64_t core_ns = model::service_copy_ns(machine_, job.bytes) + machine_.cluster.service.notice_ns;
  copier.copy.begin(machine_.places.node_of(rank), job.bytes, core_ns, [this, rank, &copier] {
    const CopyJob ended_job = std::move(copier.jobs.front());
    copier.jobs.pop_front();
    ended_job.done();
    if (!copier.jobs.empty()) begin_copy(rank);
  });
}

std::optional<std::string> OffloadedSide::problem() const {
  if (failed_) return "an operation has ended with an error";
  for (const auto& service : services_) {
    if (!service->engine().idle()) return "a service process has not come to an end";
  }
  return std::nullopt;
}

std::uint64_t OffloadedSide::moves() const {
  std::uint64_t sum = 0;
  for (const auto& service : services_) sum += service->engine().counters().moves;
  return sum;
}

}  // namespace outrigger::sim::timing
