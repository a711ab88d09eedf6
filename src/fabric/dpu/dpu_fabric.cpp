#include "fabric/dpu/dpu_fabric.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "protocol/wire/rank_message.hpp"

namespace outrigger::fabric::dpu {
namespace {

constexpr std::chrono::milliseconds kLookAtRanks{250};  // upper bound for the delay by a lost doorbell

}  // namespace

Result<std::unique_ptr<DpuFabric>> DpuFabric::open(DpuOptions options, HostFabric& node, std::uint32_t process,
                                                   std::uint32_t world_size) {
  std::unique_ptr<DpuFabric> fabric(new DpuFabric(std::move(options), node, process, world_size));
  if (Status opened = fabric->open_network(); !opened) return Error{opened.error()};
  return fabric;
}

DpuFabric::DpuFabric(DpuOptions options, HostFabric& node, std::uint32_t process, std::uint32_t world_size)
    : options_(std::move(options)),
      node_(node),
      attachments_(options_, node, *this, process, world_size),
      moves_(options_, *this),
      copies_(options_, *this, moves_),
      reductions_(*this),
      marks_(node, *this),
      completions_(*this),
      sleep_notices_(*this),
      take_over_(*this, copies_) {}

DpuFabric::~DpuFabric() {
  copies_.clear();
  RemoteRanks::drop_all();
  moves_.clear();
  reductions_.clear();
  imports_.reset();
  if (importer_) importer_->close();
  RemoteRanks::close();
}

void DpuFabric::drop_rank(WorldRank rank) {
  if (RemoteRank* found = find(rank)) HostCopies::drop(*found);
  std::erase_if(deferred_, [rank](const Deferred& one) { return one.rank == rank; });
  attachments_.drop(rank);
}

Status DpuFabric::open_network() {
  Result<ucx::Context> context = ucx::Context::open_for_memory(options_.transports);
  if (!context) return Error{context.error()};
  if (options_.alias && exports_memory(context.value().get())) {
    Result<ucx::Context> imports = ucx::Context::open_for_memory(options_.transports, true);
    if (imports) {
      importer_ = std::make_shared<UcxImporter>(imports.value().get());
      imports_.emplace(importer_);
      attachments_.use_imports(importer_, *imports_);
      moves_.use_imports(*imports_);
      return RemoteRanks::open(std::move(imports).value(), *this);
    }
  }
  return RemoteRanks::open(std::move(context).value(), *this);
}

// Answers to hellos, and doorbells. Ranks may ring although this process did not go to sleep in the end.
ucs_status_t DpuFabric::arrived(std::span<const std::byte> header, void* /*data*/, std::size_t /*bytes*/,
                                bool rendezvous) {
  const std::optional<RankMessage> message = decoded<RankMessage>(header);
  if (rendezvous || !message) return UCS_OK;
  if (message->what == RankMessage::kDoorbell) wake_up();
  if (message->what == RankMessage::kHere) attachments_.answered(WorldRank{message->world_rank});
  return UCS_OK;
}

void DpuFabric::step(RemoteRank& rank) {
  const bool served = rank.is_known() && rank.serves;
  if (rank.stage == RemoteRank::Stage::wired || (served && !rank.left)) {
    if (rank.sleep != RemoteRank::Sleep::asleep) rank.reader->poll();
  }
  attachments_.step(rank);
  if (served) completions_.step(rank);
}

bool DpuFabric::progress() {
  bool worked = copies_.step();
  worked |= moves_.start_chunks() || !marks_.all_in_place();
  marks_.write();
  (void)worker().progress();
  worked |= rma().deliver() && moves_in_flight() != 0;
  if (marks_.on_in_place) marks_.on_in_place();
  for (const auto& [number, rank] : all()) {
    worked |= rank->reader->reads() || rank->telling;
    step(*rank);
  }
  worked |= moves_.deliver();
  worked |= copies_.deliver();
  worked |= reductions_.deliver();
  complete_deferred();
  return worked;
}

Result<std::uint64_t> DpuFabric::base_of(WorldRank number, RegionId region) {
  RemoteRank* rank = find(number);
  if (rank == nullptr) return Error{"rank " + std::to_string(number.value()) + " is not attached"};
  bool known = false;
  RemoteRangePtr found;
  rank->remote->with_range(region, [&](const RemoteRangePtr& range) {
    known = true;
    found = range;
  });
  const Clock::time_point deadline = Clock::now() + options_.attach_limit;
  while (!known && Clock::now() < deadline) (void)progress_memory();
  if (!known) std::abort();  // the callback is still to come and uses locals of this call
  if (!found) return Error{"the rank has not registered this memory"};
  return found->base();
}

void DpuFabric::look_after(Clock::time_point now, const Business& /*business*/) {
  take_over_.look_after();
  if (const auto rank = attachments_.unreachable(now)) {
    failure_ = PortFailure{"the connection to rank " + std::to_string(rank->value()) + " broke (" +
                           attachments_.lanes() + ")"};
  }
  attachments_.look_after(now);
}

std::optional<DpuFabric::Clock::duration> DpuFabric::sleep_limit(Clock::time_point /*now*/) const {
  return kLookAtRanks;
}

bool DpuFabric::may_sleep() {
  const bool idle = moves_in_flight() == 0 && marks_.all_in_place();
  return sleep_notices_.all_know() && idle;
}

void DpuFabric::move(const Block& from, const Block& to, const BlockId* /*name*/, MoveCompletion& completion) {
  copies_.begin(from, to, completion);
}

void DpuFabric::reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> /*names*/,
                       const Block& into, MoveCompletion& completion) {
  ReduceRanges ranges{reduction, {}, into.memory};
  ranges.operands.reserve(operands.size());
  for (const Block& operand : operands) ranges.operands.push_back(operand.memory);
  reductions_.begin(std::move(ranges), into.bytes, completion);
}

void DpuFabric::cancel(MoveCompletion& completion) {
  copies_.cancel(completion);
  moves_.cancel(completion);
  reductions_.cancel(completion);
}

void DpuFabric::mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) {
  node_.mark_block(destination, slot, source, mark);
  marks_.add(destination, slot, source);
}

void DpuFabric::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  if (copies_.writes_late_to(rank)) {
    deferred_.push_back({rank, slot, record});
    return;
  }
  node_.complete(rank, slot, record);
  completions_.add(rank, slot);
}

void DpuFabric::complete_deferred() {
  for (const Deferred& one : std::exchange(deferred_, {})) complete(one.rank, one.slot, one.record);
}

}  // namespace outrigger::fabric::dpu
