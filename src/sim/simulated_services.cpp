#include "sim/simulated_services.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::sim {

void ServiceProcesses::start(Service& service) {
  engine::EngineConfig config;
  config.self = service.id;
  config.epoch = Epoch{service.epoch};
  config.sp_of_rank = job_.scenario.sp_of_rank;
  config.node_of_sp = job_.scenario.node_of_sp;
  config.limits = job_.scenario.limits;
  config.registry = job_.options.registry;
  service.fabric = std::make_unique<fabric::sim::SimFabric>(job_.world, service.id);
  service.engine = std::make_unique<engine::Engine>(std::move(config), service.fabric->seams());
  service.alive = true;
  job_.world.is_back(service.id);
}

void ServiceProcesses::start_all() {
  for (std::uint32_t index = 0; index < job_.services.size(); ++index) {
    job_.services[index].id = SpId{index};
    start(job_.services[index]);
  }
}

void ServiceProcesses::tell(Service& service, std::function<void(engine::Engine&)> what) {
  if (!service.alive) return;
  service.inbox.push_back(std::move(what));
  wake(service);
}

void ServiceProcesses::wake(Service& service) {
  if (service.step_scheduled || !service.alive) return;
  service.step_scheduled = true;
  std::uint64_t delay = job_.world.random.within(job_.world.faults.step_delay_ns);
  if (job_.world.random.chance(job_.world.faults.service_stall_chance)) {
    delay += job_.world.random.within(job_.world.faults.service_stall_ns);
  }
  job_.world.time.after(delay, [this, &service, epoch = service.epoch] {
    if (service.alive && service.epoch == epoch) step(service);
  });
}

void ServiceProcesses::step(Service& service) {
  service.step_scheduled = false;
  // Takes all of the inbox or only the first message: the result must not depend on it.
  std::size_t count = job_.world.random.chance(0.5) ? service.inbox.size() : 1;
  for (; count != 0 && !service.inbox.empty(); --count) {
    const std::function<void(engine::Engine&)> what = std::move(service.inbox.front());
    service.inbox.pop_front();
    what(*service.engine);
  }
  service.engine->run();
  if (std::optional<std::string> invariant = service.engine->broken_invariant()) {
    job_.broken(fmt::format("service process {}: {}", service.id.value(), *invariant));
  }
  if (!service.inbox.empty()) wake(service);
}

void ServiceProcesses::arrived(SpId from, SpId to, std::vector<std::byte> message) {
  tell(job_.service(to), [this, from, message = std::move(message)](engine::Engine& engine) {
    if (!engine.receive(from, message)) job_.broken(fmt::format("message from {} refused as malformed", from.value()));
  });
}

// Only a root that holds its blocks back depends on it: it gets no answer if a rank is lost, or is replayed after the
// root's question.
bool ServiceProcesses::look_for_overdue() {
  constexpr int kLooks = 2;  // the second one asks
  const bool holds_back = job_.options.algorithm == Algorithm::rooted;
  const bool any_open = std::ranges::any_of(job_.ranks, &Rank::anything_open);
  if (!holds_back || !any_open || looked_after_ == job_.result.operations) return false;
  looked_after_ = job_.result.operations;
  for (Service& service : job_.services) {
    tell(service, [](engine::Engine& engine) {
      for (int look = 0; look < kLooks; ++look) static_cast<void>(engine.look_for_passed());
    });
  }
  return true;
}

void ServiceProcesses::schedule_crashes() {
  for (std::uint64_t i = 0; i < job_.world.faults.most_crashes; ++i) {
    if (!job_.world.random.chance(0.7)) continue;
    const std::uint64_t victim = job_.world.random.below(job_.services.size());
    job_.world.time.after(job_.world.random.within(job_.world.faults.crash_time_ns),
                          [this, victim] { crash(job_.services[victim]); });
  }
}

void ServiceProcesses::crash(Service& service) {
  if (!service.alive || job_.result.crashes >= job_.world.faults.most_crashes) return;
  job_.trace("service {} crashes (epoch {})", service.id.value(), service.epoch);
  ++job_.result.crashes;
  service.alive = false;
  service.fabric->crash();
  job_.world.lose_messages_of(service.id);
  service.inbox.clear();
  service.step_scheduled = false;
  service.engine.reset();
  for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
    if (job_.scenario.sp_of_rank[rank] != service.id) continue;
    job_.ranks[rank].attached = false;
    job_.ranks[rank].forgotten = job_.ranks[rank].lost;
  }
  job_.world.time.after(job_.world.random.within(job_.world.faults.restart_delay_ns),
                        [this, &service] { restart(service); });
}

void ServiceProcesses::restart(Service& service) {
  ++service.epoch;
  start(service);
  job_.trace("service {} is back (epoch {})", service.id.value(), service.epoch);
  for (Service& peer : job_.services) {
    if (peer.id == service.id || !peer.alive) continue;
    job_.world.time.after(job_.world.random.within(job_.world.faults.notice_delay_ns), [this, &peer, id = service.id,
                                                                                        epoch = service.epoch] {
      job_.trace("service {} is told that service {} is back (epoch {})", peer.id.value(), id.value(), epoch);
      tell(peer, [id, epoch](engine::Engine& engine) { engine.peer_restarted(id, Epoch{epoch}); });
    });
    // The new one is told the others' incarnations, or learns them from their messages.
    if (job_.world.random.chance(0.5)) {
      tell(service,
           [id = peer.id, epoch = peer.epoch](engine::Engine& engine) { engine.peer_restarted(id, Epoch{epoch}); });
    }
  }
  for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
    if (job_.scenario.sp_of_rank[rank] != service.id) continue;
    job_.world.time.after(job_.world.random.within(job_.world.faults.reattach_delay_ns),
                          [this, rank, epoch = service.epoch] { reattach(WorldRank{rank}, epoch); });
  }
}

void ServiceProcesses::reattach(WorldRank rank, std::uint32_t epoch) {
  Service& service = job_.service_of(rank);
  if (!service.alive || service.epoch != epoch) return;
  Rank& state = job_.ranks[rank.value()];
  if (state.lost) return tell(service, [rank](engine::Engine& engine) { engine.drop_rank(rank); });
  state.attached = true;
  std::vector<engine::PostedOperation> replayed;
  for (std::size_t slot = 0; slot < state.slots.size(); ++slot) {
    if (state.slots[slot].completed) continue;
    replayed.push_back(posted_(rank, slot));
    replayed.back().marks = state.slots[slot].marks;
  }
  job_.result.replayed_posts += replayed.size();
  job_.trace("rank {} is replayed with {} unfinished operations", rank.value(), replayed.size());
  const auto restore = [this, rank, posted = state.posted](engine::Engine& engine) {
    for (const auto& [group, count] : posted) engine.restore_progress(rank, job_.scenario.groups[group].id, count);
  };
  const auto forget = [this, rank, freed = state.freed](engine::Engine& engine) {
    for (const auto& [group, is_freed] : freed) {
      if (is_freed) engine.forget_group(rank, job_.scenario.groups[group].id);
    }
  };
  const auto replay = [replayed](engine::Engine& engine) {
    for (const engine::PostedOperation& operation : replayed) engine.post(operation);
  };
  if (job_.world.random.chance(0.5)) {
    tell(service, [restore, replay, forget](engine::Engine& engine) {
      restore(engine);
      replay(engine);
      forget(engine);
    });
  } else {
    tell(service, replay);
    tell(service, restore);
    tell(service, forget);
  }
}

}  // namespace outrigger::sim
