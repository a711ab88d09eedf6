#include "sim/simulation.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/invariants.hpp"
#include "sim/job_state.hpp"
#include "sim/message_text.hpp"
#include "sim/programs.hpp"
#include "sim/simulated_services.hpp"

namespace outrigger::sim {
namespace {

// Far more than all faults of the options add up to.
constexpr std::uint64_t kTimeLimit_ns = 1'000'000'000'000;
constexpr std::uint64_t kStepLimit = 20'000'000;

// Distributes events.
class Simulation final : public fabric::sim::Observer {
 public:
  explicit Simulation(const SimulationOptions& options)
      : job_(options, *this),
        invariants_(job_),
        services_(job_, [this](WorldRank rank, std::size_t slot) { return programs_.posted(rank, slot); }),
        programs_(job_, [this](Service& service, std::function<void(engine::Engine&)> what) {
          services_.tell(service, std::move(what));
        }) {}

  [[nodiscard]] SimulationResult run();

  void chunk_moves(SpId by, const Block& from, const Block& to) override { invariants_.chunk_moves(by, from, to); }
  void eager_read(SpId by, const Block& from) override { invariants_.eager_read(by, from); }
  void move_ended(SpId by) override { services_.wake(job_.service(by)); }
  void marked(SpId by, WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override {
    invariants_.marked(by, destination, slot, source, mark);
  }
  void completed(SpId by, WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override {
    if (Slot* ended = invariants_.completing(by, rank, slot, record)) programs_.completed(rank, *ended);
  }
  void arrived(SpId from, SpId to, std::vector<std::byte> message) override {
    services_.arrived(from, to, std::move(message));
  }
  void sent(SpId from, SpId to, std::span<const std::byte> message) override;

 private:
  // In a quiet job no rank may wait without need; then one absent rank continues.
  [[nodiscard]] bool recall_absent() {
    invariants_.check_waiting();
    return programs_.recall_absent();
  }

  JobState job_;
  Invariants invariants_;
  ServiceProcesses services_;
  Programs programs_;
};

void Simulation::sent(SpId from, SpId to, std::span<const std::byte> message) {
  invariants_.sent(message);
  if (!job_.options.trace) return;
  const std::optional<std::string> text = text_of_message(message);
  if (!text) return job_.broken("a sent message cannot be decoded");
  job_.trace("service {} -> {}: {}", from.value(), to.value(), *text);
}

SimulationResult Simulation::run() {
  if (job_.options.trace) fmt::print("seed {}: {}\n", job_.options.seed, job_.scenario.describe());
  services_.start_all();
  for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank) programs_.schedule_post(WorldRank{rank});
  services_.schedule_crashes();
  programs_.schedule_losses();
  std::uint64_t steps = 0;
  while (!job_.result.broken && (job_.world.time.step() || recall_absent() || services_.look_for_overdue())) {
    if (job_.world.time.now_ns() > kTimeLimit_ns || ++steps > kStepLimit) job_.broken("no end within the time limit");
  }
  if (!job_.result.broken) invariants_.check_end();
  job_.result.virtual_ns = job_.world.time.now_ns();
  // Engines before the world that owns their moves.
  for (Service& service : job_.services) service.engine.reset();
  return job_.result;
}

}  // namespace

SimulationResult simulate(const SimulationOptions& options) {
  return Simulation(options).run();
}

}  // namespace outrigger::sim
