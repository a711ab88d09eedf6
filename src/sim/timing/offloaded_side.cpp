#include "sim/timing/offloaded_side.hpp"

#include <utility>

#include "copy/policy.hpp"

namespace outrigger::sim::timing {
namespace {

// The longest wait of a service process for a rank (docs/inside/memory.md).
constexpr std::uint64_t kRankLimit_ns = 2'000'000;
// Messages between a DPU and its host: a read; a job with its acknowledgement, and the
// count of jobs; a recall with its acknowledgement, and two reads.
constexpr std::uint64_t kMessagesOfRead = 2;
constexpr std::uint64_t kMessagesOfJob = 3;
constexpr std::uint64_t kMessagesOfRecall = 6;
// Between two looks of a copier on a spare core, for each that shares it (client/copies/spare_copier.hpp).
constexpr std::uint64_t kPauseOfCopier_ns = 4000;

}  // namespace

OffloadedSide::OffloadedSide(model::Machine& machine, const Workload& workload)
    : machine_(machine), workload_(workload), numbering_(workload, machine.places.ranks()) {
  engine::EngineConfig config = machine.places.engine_config();
  const model::ServiceModel& service = machine.cluster.service;
  if (service.placement == model::Placement::dpu && service.ranks_copy) {
    config.limits.near_window_moves = copy::kMostNearMoves;
    config.limits.near_window_bytes = copy::kLeastBytesToLend;
  }
  model::ServiceWorld& world = *this;
  for (std::uint32_t sp = 0; sp < machine.places.services(); ++sp) {
    config.self = SpId{sp};
    services_.push_back(std::make_unique<model::Service>(machine, world, config));
  }
  for (std::uint32_t rank = 0; rank < machine.places.ranks(); ++rank) {
    ranks_.push_back(std::make_unique<Rank>(machine, rank));
  }
}

OffloadedSide::~OffloadedSide() = default;

// A rank copies its own block itself.
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
  Rank& poster = *ranks_[rank];
  const std::uint64_t call_ns = machine_.cluster.mpi.post_ns;
  poster.processor.run(poster.process, call_ns, [this, &call, id, rank, request, &poster, posted = std::move(posted)] {
    machine_.time.after(machine_.cluster.service.notice_ns, [this, &call, id, rank, request] {
      engine::PostedOperation operation = timing::posted(workload_, call, rank, id.group, id.sequence);
      operation.slot = SlotIndex{request};
      services_[machine_.places.service_of(rank)]->post(std::move(operation));
    });
    // If ranks share cores, it lets others post before it computes (docs/inside/memory.md).
    poster.processor.run(poster.process, own_block_ns(call), [this, &poster, posted] {
      if (machine_.processors.rank_part() == 1) return posted();
      poster.processor.yield_and_run(poster.process, 0, posted);
    });
  });
}

// Reads only the rank's own memory.
void OffloadedSide::test(std::uint32_t rank, std::function<void()> returned) {
  Rank& tester = *ranks_[rank];
  tester.processor.run(tester.process, machine_.cluster.service.mark_ns, std::move(returned));
}

void OffloadedSide::wait(std::uint32_t rank, bool inside) {
  Rank& state = *ranks_[rank];
  if (state.waits == inside) return;
  state.waits = inside;
  state.processor.poll(state.process, inside);
  if (machine_.cluster.service.placement == model::Placement::dpu) show_wait_to_dpu(rank);
  inside ? copy_next(rank) : let_copier_look(rank);
}

// The service process reads it from the rank's memory, and takes back the jobs of a rank that does not wait any more.
void OffloadedSide::show_wait_to_dpu(std::uint32_t rank) {
  const std::uint64_t notice_ns = machine_.cluster.service.notice_ns;
  machine_.time.after(kMessagesOfRead * notice_ns, [this, rank, notice_ns, inside = ranks_[rank]->waits] {
    Rank& state = *ranks_[rank];
    state.seen_waiting = inside;
    services_[machine_.places.service_of(rank)]->share_out();
    if (inside || state.spare) return;
    machine_.time.after(kMessagesOfRecall * notice_ns, [this, &state] {
      if (!state.seen_waiting) take_back(state);
    });
  });
}

void OffloadedSide::completed(WorldRank rank, SlotIndex slot, bool ok) {
  failed_ = failed_ || !ok;
  // It sees that at its next turn on its core.
  Rank& waiter = *ranks_[rank.value()];
  waiter.processor.run(waiter.process, 0, [this, rank, slot] { ended(rank.value(), slot.value()); });
}

bool OffloadedSide::left_to_ranks(std::uint64_t bytes) const {
  const model::Cluster& cluster = machine_.cluster;
  return cluster.service.relays() && machine_.places.shape().ranks_per_node >= cluster.host.cores &&
         bytes >= copy::kLeastBytesToLend;
}

bool OffloadedSide::copy_by_rank(WorldRank rank, std::uint64_t bytes, std::function<void()> done,
                                 std::function<void()> left) {
  const model::ServiceModel& service = machine_.cluster.service;
  if (service.placement == model::Placement::dpu) {
    copy_for_dpu(rank.value(), bytes, std::move(done), std::move(left));
    return true;
  }
  const bool helps = service.ranks_copy && !service.relays() && ranks_[rank.value()]->waits;
  if (!helps && !left_to_ranks(bytes)) return false;
  const std::uint64_t core_ns = model::service_copy_ns(machine_, bytes) + service.notice_ns;
  give(rank.value(), CopyJob{bytes, core_ns, std::move(done), std::move(left)});
  return true;
}

model::ServiceWorld::Lender OffloadedSide::lender(WorldRank rank) const {
  const Rank& state = *ranks_[rank.value()];
  const copy::Offer offer = state.seen_waiting ? copy::Offer::waiting
                            : state.spare      ? copy::Offer::copier
                                               : copy::Offer::none;
  return {state.seen_waiting, state.lent_bytes < copy::kMostBytesLent ? offer : copy::Offer::none};
}

void OffloadedSide::copy_for_dpu(std::uint32_t rank, std::uint64_t bytes, std::function<void()> done,
                                 std::function<void()> left) {
  const std::uint64_t notice_ns = machine_.cluster.service.notice_ns;
  ranks_[rank]->lent_bytes += bytes;
  const auto told = [this, rank, bytes](const std::function<void()>& what) {
    ranks_[rank]->lent_bytes -= bytes;
    what();
    services_[machine_.places.service_of(rank)]->share_out();
  };
  CopyJob job{bytes, model::host_copy_ns(machine_, bytes),
              [this, notice_ns, told, done = std::move(done)] {
                machine_.time.after(kMessagesOfRead * notice_ns, [told, done] { told(done); });
              },
              [told, left = std::move(left)] { told(left); }};
  machine_.time.after(kMessagesOfJob * notice_ns, [this, rank, job = std::move(job)] { give(rank, job); });
}

void OffloadedSide::give(std::uint32_t rank, CopyJob job) {
  Rank& copier = *ranks_[rank];
  copier.jobs.push_back(std::move(job));
  copy_next(rank);
  let_copier_look(rank);
  if (copier.jobs.size() == 1 && !copier.copies) time_out_later(rank);
}

// Copiers that share a core look at their jobs in turn.
std::uint64_t OffloadedSide::pause_of_copier_ns() const {
  return kPauseOfCopier_ns * machine_.places.shape().ranks_per_node / machine_.cluster.service.copy_cores;
}

void OffloadedSide::let_copier_look(std::uint32_t rank) {
  Rank& state = *ranks_[rank];
  if (!state.spare || state.jobs.empty() || std::exchange(state.spare->busy, true)) return;
  machine_.time.after(pause_of_copier_ns() / 2, [this, rank] { copy_on_spare_core(rank); });
}

// It takes a job when it has the core, and none while its rank waits.
void OffloadedSide::copy_on_spare_core(std::uint32_t rank) {
  SpareCopier& copier = *ranks_[rank]->spare;
  copier.processor.run(copier.process, 0, [this, rank, &copier] {
    Rank& state = *ranks_[rank];
    copier.busy = !state.waits && !state.jobs.empty();
    if (!copier.busy) return;
    CopyJob job = std::move(state.jobs.front());
    state.jobs.pop_front();
    ++state.progress;
    copier.copy.begin(machine_.places.node_of(rank), job.bytes, job.core_ns, [this, rank, &state, done = job.done] {
      ++state.progress;
      done();
      if (!state.jobs.empty() && !state.copies) time_out_later(rank);
      copy_on_spare_core(rank);
    });
  });
}

void OffloadedSide::copy_next(std::uint32_t rank) {
  Rank& copier = *ranks_[rank];
  if (copier.copies || copier.jobs.empty() || !copier.waits) return;
  CopyJob job = std::move(copier.jobs.front());
  copier.jobs.pop_front();
  copier.copies = true;
  ++copier.progress;
  copier.copy.begin(machine_.places.node_of(rank), job.bytes, job.core_ns,
                    [this, rank, &copier, done = std::move(job.done)] {
                      copier.copies = false;
                      ++copier.progress;
                      done();
                      copy_next(rank);
                      if (!copier.copies && !copier.jobs.empty()) time_out_later(rank);
                    });
}

// A service process waits this long for a rank that does not begin to copy.
void OffloadedSide::time_out_later(std::uint32_t rank) {
  Rank& copier = *ranks_[rank];
  machine_.time.after(kRankLimit_ns, [this, &copier, progress = copier.progress] {
    if (progress == copier.progress) take_back(copier);
  });
}

void OffloadedSide::take_back(Rank& rank) {
  ++rank.progress;
  for (const CopyJob& job : std::exchange(rank.jobs, {})) job.left();
}

std::optional<std::string> OffloadedSide::problem() const {
  if (failed_) return "an operation has ended with an error";
  for (const auto& service : services_) {
    if (!service->engine().idle()) return "a service process has unfinished operations";
  }
  return std::nullopt;
}

std::uint64_t OffloadedSide::moves() const {
  std::uint64_t sum = 0;
  for (const auto& service : services_) sum += service->engine().counters().moves;
  return sum;
}

}  // namespace outrigger::sim::timing
