#include "fabric/dpu/dpu_fabric.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "protocol/rank_message.hpp"

namespace outrigger::fabric::dpu {
namespace {

// A rank that ends takes its connection with it: its keeper says so soon after.
constexpr std::chrono::seconds kUntilKnownToHaveLeft{2};
constexpr std::size_t kLineBytes = 64;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

Result<std::unique_ptr<DpuFabric>> DpuFabric::open(DpuOptions options, HostFabric& node, std::uint32_t self,
                                                   std::uint32_t world_size) {
  Result<ucx::Context> context = ucx::Context::open_for_memory(options.transports);
  if (!context) return Error{context.error()};
  const bool exports = options.alias && exports_memory(context.value().get());
  const std::string transports = options.transports;
  std::unique_ptr<DpuFabric> fabric(new DpuFabric(std::move(options), node, self, world_size));
  if (exports) {
    Result<ucx::Context> imports = ucx::Context::open_for_memory(transports, true);
    if (imports) {
      fabric->importer_ = std::make_shared<UcxImporter>(imports.value().get());
      fabric->imports_.emplace(fabric->importer_);
      fabric->context_.emplace(std::move(imports).value());
    }
  }
  if (!fabric->context_) fabric->context_.emplace(std::move(context).value());
  Result<ucx::Worker> worker = ucx::Worker::open(*fabric->context_, *fabric, kRankMessageId);
  if (!worker) return Error{worker.error()};
  fabric->worker_.emplace(std::move(worker).value());
  return fabric;
}

DpuFabric::DpuFabric(DpuOptions options, HostFabric& node, std::uint32_t self, std::uint32_t world_size)
    : options_(std::move(options)),
      node_(node),
      self_(self),
      world_size_(world_size),
      staging_(options_.buffers, options_.chunk_bytes) {}

DpuFabric::~DpuFabric() {
  ranks_.clear();
  moves_.clear();
  imports_.reset();
  if (importer_) importer_->close();
}

DpuFabric::Rank* DpuFabric::find(WorldRank rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : found->second.get();
}

// ---------------------------------------------------------------- ranks come and go

Status DpuFabric::add_rank(WorldRank rank, bool serves, const RankAddress& address) {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-mirror", SegmentView::segment_bytes(), Backing::on_touch);
  if (!fd) return Error{fd.error()};
  Result<Mapping> mapping = Mapping::map(fd.value().get(), SegmentView::segment_bytes());
  if (!mapping) return Error{mapping.error()};
  const SegmentView mirror(mapping.value().base());
  mirror.initialize(rank, world_size_);
  mirror.header().rank_base_address.store(address.segment_base, std::memory_order_relaxed);
  Result<std::unique_ptr<RemoteMemory>> remote = RemoteMemory::connect(rma_, *worker_, address, mirror);
  if (!remote) return Error{remote.error()};
  const ucx::Lanes lanes = remote.value()->lanes();
  lanes_ = joined(lanes.memory);
  node_.add_rank(rank, RankMemory(0, std::move(mapping).value(), false));
  auto added = std::make_unique<Rank>();
  added->rank = rank;
  added->serves = serves;
  added->since = Clock::now();
  added->mirror = mirror;
  added->offer = address.trial;
  added->remote = std::move(remote).value();
  added->reader = std::make_unique<PostReader>(*added->remote, node_, rank, world_size_);
  added->remote->on_replaced = [this, rank](RegionId region) {
    if (RankMemory* memory = node_.rank(rank)) (void)memory->drop_region(region);
    if (imports_) imports_->forget(rank, region);
  };
  Rank& here = *added;
  ranks_.insert_or_assign(rank, std::move(added));
  if (lanes.memory.empty()) {
    attached(here, Attached::What::failed, "its network moves no memory by itself (" + joined(lanes.messages) + ")");
    return Done{};
  }
  say_hello(here);
  return Done{};
}

void DpuFabric::say_hello(Rank& rank) {
  rank.hello = RankMessage{RankMessage::kHello, rank.serves ? 1U : 0U, rank.rank.value()};
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request = ucp_am_send_nbx(rank.remote->endpoint(), kRankMessageId, &rank.hello,
                                                   sizeof(rank.hello), nullptr, 0, &parameters);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

// Answers to hellos, and doorbells: of ranks that believe that this process sleeps, though it may have been kept awake.
ucs_status_t DpuFabric::arrived(std::span<const std::byte> header, void* /*data*/, std::size_t /*bytes*/,
                                bool rendezvous) {
  RankMessage message;
  if (rendezvous || header.size() != sizeof(message)) return UCS_OK;
  std::memcpy(&message, header.data(), sizeof(message));
  if (message.what == RankMessage::kDoorbell) {
    wake_up();
    return UCS_OK;
  }
  Rank* rank = find(WorldRank{message.world_rank});
  if (message.what != RankMessage::kHere || rank == nullptr || rank->stage != Stage::connecting) return UCS_OK;
  rank->stage = Stage::wired;
  attached(*rank, Attached::What::wired);
  return UCS_OK;
}

void DpuFabric::attached(Rank& rank, Attached::What what, const std::string& reason) {
  if (what == Attached::What::failed) rank.stage = Stage::failed;
  attached_.push_back(Attached{what, rank.rank, reason, rank.alias ? kReachRdma | kReachAlias : kReachRdma});
}

std::optional<DpuFabric::Attached> DpuFabric::next_attached() {
  if (attached_.empty()) return std::nullopt;
  Attached next = std::move(attached_.front());
  attached_.pop_front();
  return next;
}

void DpuFabric::look_after_attaching(Clock::time_point now) {
  for (const auto& [number, rank] : ranks_) {
    if (rank->stage >= Stage::reached) continue;
    if (rank->remote->broken()) {
      attached(*rank, Attached::What::failed, "the connection to it broke (" + lanes_ + ")");
      continue;
    }
    if (rank->stage == Stage::trying) {
      if (now - rank->trial_since >= options_.attach_limit) rank->trial->give_up();
      continue;
    }
    if (now - rank->since < options_.attach_limit) continue;
    attached(*rank, Attached::What::failed,
             rank->stage == Stage::connecting ? "it does not answer over the network"
                                              : "its memory is reached only with its own help (" + lanes_ + ")");
  }
}

// The rank lets its network rest by now: what is written and read from here on needs no help of its.
void DpuFabric::prove(Rank& rank) {
  rank.stage = Stage::proving;
  std::atomic<std::uint32_t>& proof = rank.mirror.header().proofs[self_];
  proof.store(kRankQuiet, std::memory_order_relaxed);
  const WorldRank number = rank.rank;
  rank.remote->store(&proof, sizeof(proof), [this, number](bool /*ok*/) {
    Rank* here = find(number);
    if (here == nullptr) return;
    here->remote->when_flushed([this, number](bool /*ok*/) {
      Rank* written = find(number);
      if (written == nullptr) return;
      const std::span<std::byte> to = std::as_writable_bytes(std::span(&written->proof, 1));
      written->remote->fetch_to(&written->mirror.header().proofs[self_], to, [this, number](bool ok) {
        Rank* read = find(number);
        if (read == nullptr || read->stage != Stage::proving) return;
        if (!ok || read->proof != kRankQuiet) {
          return attached(*read, Attached::What::failed, "what is written to its memory does not arrive");
        }
        try_alias(*read);
      });
    });
  });
}

void DpuFabric::try_alias(Rank& rank) {
  if (!importer_ || !rank.offer) return reached(rank);
  rank.stage = Stage::trying;
  rank.trial_since = Clock::now();
  rank.trial = std::make_unique<AliasTrial>(rma_, *rank.remote, importer_, *rank.offer, self_,
                                            [this, number = rank.rank](bool works) {
                                              Rank* here = find(number);
                                              if (here == nullptr || here->stage != Stage::trying) return;
                                              here->alias = works;
                                              reached(*here);
                                            });
}

void DpuFabric::reached(Rank& rank) {
  rank.stage = Stage::reached;
  attached(rank, Attached::What::reached);
}

void DpuFabric::drop_rank(WorldRank rank) {
  // Its moves end as what they have begun ends.
  ranks_.erase(rank);
  if (imports_) imports_->forget(rank);
}

std::optional<WorldRank> DpuFabric::unreachable_rank(Clock::time_point now) {
  for (const auto& [number, rank] : ranks_) {
    if (!rank->remote->broken() || rank->left || rank->stage != Stage::reached) continue;
    if (!rank->broken_since) rank->broken_since = now;
    if (now - *rank->broken_since >= kUntilKnownToHaveLeft) return number;
  }
  return std::nullopt;
}

// The rank's memory goes away. It waits for this.
void DpuFabric::leave(Rank& rank) {
  if (std::exchange(rank.left, true)) return;
  std::atomic<std::uint32_t>& proof = rank.mirror.header().proofs[self_];
  proof.store(kRankLeaves, std::memory_order_relaxed);
  rank.remote->store(&proof, sizeof(proof), [](bool /*ok*/) {});
}

// ---------------------------------------------------------------- turns

void DpuFabric::step(Rank& rank) {
  if (rank.stage == Stage::wired || (rank.stage == Stage::reached && rank.serves && !rank.left)) {
    if (rank.sleep != Sleep::asleep) rank.reader->poll();
  }
  if (rank.stage == Stage::wired && rank.reader->quiet() != 0) prove(rank);
  if (rank.stage != Stage::reached || !rank.serves) return;
  if (rank.reader->quiet() == kRankLeaves) leave(rank);
  if (!rank.completed.empty() && !rank.telling) tell_completions(rank);
  if (rank.line_changed && !rank.line_under_way) tell_line(rank);
}

bool DpuFabric::progress() {
  bool worked = start_chunks();
  (void)worker_->progress();
  worked |= rma_.deliver() && moves_in_flight() != 0;
  for (const auto& [number, rank] : ranks_) {
    worked |= rank->reader->reads() || rank->telling;
    step(*rank);
  }
  worked |= finished_.deliver();
  return worked;
}

Result<std::uint64_t> DpuFabric::base_of(WorldRank number, RegionId region) {
  Rank* rank = find(number);
  if (rank == nullptr) return Error{"no such rank"};
  bool known = false;
  RemoteRangePtr found;
  rank->remote->with_range(region, [&](const RemoteRangePtr& range) {
    known = true;
    found = range;
  });
  const Clock::time_point deadline = Clock::now() + options_.attach_limit;
  while (!known && Clock::now() < deadline) (void)progress_memory();
  if (!known) std::abort();  // the callback is still to come, and names what is gone by then
  if (!found) return Error{"the rank has registered no such memory"};
  return found->base();
}

// ---------------------------------------------------------------- completions

void DpuFabric::send(SpId to, std::span<const std::byte> message) {
  node_.send(to, message);
}

void DpuFabric::mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) {
  node_.mark_delivered(destination, slot, source);
}

void DpuFabric::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  node_.complete(rank, slot, record);
  if (Rank* here = find(rank)) here->completed.push_back(slot);
}

void DpuFabric::store_result(Rank& rank, SlotIndex slot) {
  const OperationSlot& done = rank.mirror.slot(slot);
  rank.remote->store(&done.result, sizeof(done.result), [](bool /*ok*/) {});
  // The mirror's copy is what was decoded; the rank has no hand in it.
  const LocalRef marks = done.body.marks;
  const std::uint32_t count = done.body.group_size;
  const RankMemory* memory = node_.rank(rank.rank);
  if (done.body.request != static_cast<std::uint16_t>(SlotRequest::operation) || memory == nullptr) return;
  const std::byte* here = memory->mapped(RegionId{marks.region}, marks.address, count);
  if (here == nullptr || count == 0) return;
  rank.remote->put(MemoryRef{rank.rank, RegionId{marks.region}, marks.address}, std::span(here, count),
                   [](MoveStatus /*status*/) {});
}

void DpuFabric::tell_completions(Rank& rank) {
  rank.telling = true;
  std::vector<SlotIndex> slots = std::exchange(rank.completed, {});
  for (const SlotIndex slot : slots) store_result(rank, slot);
  rank.remote->when_flushed([this, number = rank.rank, slots = std::move(slots)](bool ok) {
    if (ok) tell_states(number, slots);
  });
}

void DpuFabric::tell_states(WorldRank number, std::vector<SlotIndex> slots) {
  Rank* rank = find(number);
  if (rank == nullptr) return;
  for (const SlotIndex slot : slots) {
    const std::atomic<std::uint32_t>& state = rank->mirror.slot(slot).state;
    rank->remote->store(&state, sizeof(state), [](bool /*ok*/) {});
  }
  rank->remote->when_flushed([this, number](bool /*ok*/) {
    Rank* told = find(number);
    if (told == nullptr) return;
    told->telling = false;
    told->line_changed = true;
  });
}

void DpuFabric::tell_line(Rank& rank) {
  rank.line_changed = false;
  rank.line_under_way = true;
  auto told = std::make_shared<std::vector<Rma::Done>>(std::exchange(rank.line_told, {}));
  rank.remote->store(&rank.mirror.header().completions, kLineBytes, [](bool /*ok*/) {});
  rank.remote->when_flushed([this, number = rank.rank, told](bool ok) {
    if (Rank* here = find(number)) here->line_under_way = false;
    for (const Rma::Done& done : *told) done(ok);
  });
}

void DpuFabric::publish_route(WorldRank number, std::size_t route) {
  Rank* rank = find(number);
  if (rank == nullptr || rank->left) return;
  const SegmentHeader& header = rank->mirror.header();
  rank->remote->store(&header.wire_routes[route], sizeof(header.wire_routes[route]), [](bool /*ok*/) {});
  rank->remote->when_flushed([this, number](bool /*ok*/) {
    Rank* here = find(number);
    if (here == nullptr || here->left) return;
    const auto& count = here->mirror.header().wire_route_count;
    here->remote->store(&count, sizeof(count), [](bool /*ok*/) {});
  });
}

// ---------------------------------------------------------------- sleep

// Says so, and looks once more for what was posted before the rank could know. When there was any, nobody goes to
// sleep: ranks that are told already would not be looked at while this one's posts keep the service process awake.
void DpuFabric::begin_sleep(Rank& rank) {
  rank.sleep = Sleep::telling;
  all_awake_ = false;
  const std::uint64_t attempt = ++rank.sleep_attempts;
  rank.mirror.header().service_sleeping.store(1, std::memory_order_relaxed);
  rank.line_changed = true;
  const auto still = [this, number = rank.rank, attempt]() -> Rank* {
    Rank* here = find(number);
    return here != nullptr && here->sleep == Sleep::telling && here->sleep_attempts == attempt ? here : nullptr;
  };
  rank.line_told.push_back([this, still](bool /*ok*/) {
    Rank* told = still();
    if (told == nullptr) return;
    // A look that is under way may have begun before: the one after it counts.
    told->reader->after_next_poll([this, still](bool ok) {
      Rank* looked = still();
      if (looked == nullptr) return;
      if (!ok || !looked->reader->caught_up()) return wake_up();
      looked->sleep = Sleep::asleep;
    });
  });
}

bool DpuFabric::may_sleep() {
  bool all = moves_.empty() && finished_.empty();
  for (const auto& [number, rank] : ranks_) {
    all = all && rank->stage >= Stage::reached;  // nothing wakes a sleeper for the steps until then
    if (!rank->serves || rank->left || rank->remote->broken() || rank->stage != Stage::reached) continue;
    if (rank->sleep == Sleep::awake) begin_sleep(*rank);
    all = all && rank->sleep == Sleep::asleep && !rank->telling && rank->completed.empty() && !rank->line_under_way;
  }
  return all;
}

void DpuFabric::wake_up() {
  if (std::exchange(all_awake_, true)) return;
  for (const auto& [number, rank] : ranks_) {
    if (rank->sleep == Sleep::awake) continue;
    rank->sleep = Sleep::awake;
    rank->mirror.header().service_sleeping.store(0, std::memory_order_relaxed);
    rank->line_changed = true;
  }
}

}  // namespace outrigger::fabric::dpu
