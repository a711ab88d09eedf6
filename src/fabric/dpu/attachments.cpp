#include "fabric/dpu/attachments.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "protocol/wire/control.hpp"
#include "protocol/wire/rank_message.hpp"

namespace outrigger::fabric::dpu {
namespace {

using Stage = RemoteRank::Stage;

// A rank's connection breaks when the rank ends; its keeper reports the end soon after.
constexpr std::chrono::seconds kUntilKnownToHaveLeft{2};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

void Attachments::use_imports(const std::shared_ptr<Importer>& importer, ImportCache& imports) {
  importer_ = importer;
  imports_ = &imports;
}

// A standby process starts while ranks run, and they may end before it is ready. So it first reads all reports about
// them: UCX complains about ranks of the same machine that are gone.
Status Attachments::add(WorldRank rank, bool serves, const RankAddress& address) {
  if (!options_.stands_by) return begin(rank, serves, address);
  waiting_.push_back(Waiting{rank, address});
  return Done{};
}

void Attachments::connect_waiting() {
  for (const Waiting& one : std::exchange(waiting_, {})) {
    const Status begun = begin(one.rank, false, one.address);
    if (!begun) attached_.push_back(Attached{Attached::What::failed, one.rank, begun.error()});
  }
}

Status Attachments::begin(WorldRank rank, bool serves, const RankAddress& address) {
  const Result<RemoteRank*> added = connect(rank, serves, address);
  if (!added) return Error{added.error()};
  RemoteRank& here = *added.value();
  const ucx::Lanes lanes = here.remote->lanes();
  lanes_ = joined(lanes.memory);
  if (lanes.memory.empty()) {
    tell(here, Attached::What::failed, "its network does not support RDMA (" + joined(lanes.messages) + ")");
  } else {
    say_hello(here);
  }
  return Done{};
}

Result<RemoteRank*> Attachments::connect(WorldRank rank, bool serves, const RankAddress& address) {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-mirror", SegmentView::segment_bytes(), Backing::on_touch);
  if (!fd) return Error{fd.error()};
  Result<Mapping> mapping = Mapping::map(fd.value().get(), SegmentView::segment_bytes());
  if (!mapping) return Error{mapping.error()};
  const SegmentView mirror(mapping.value().base());
  mirror.initialize(rank, world_size_);
  mirror.header().rank_base_address.store(address.segment_base, std::memory_order_relaxed);
  Result<std::unique_ptr<RemoteMemory>> remote = RemoteMemory::connect(ranks_.rma(), ranks_.worker(), address, mirror);
  if (!remote) return Error{remote.error()};
  node_.add_rank(rank, RankMemory(0, std::move(mapping).value(), false));
  auto added = std::make_unique<RemoteRank>();
  added->rank = rank;
  added->serves = serves;
  added->since = Clock::now();
  added->mirror = mirror;
  added->offer = address.trial;
  added->process = address.process;
  added->in_no_hurry = options_.stands_by;
  added->remote = std::move(remote).value();
  added->reader = std::make_unique<PostReader>(*added->remote, node_, rank, world_size_, !options_.stands_by);
  added->remote->on_replaced = [this, rank](RegionId region) {
    if (RankMemory* memory = node_.rank(rank)) (void)memory->drop_region(region);
    if (imports_ != nullptr) imports_->forget(rank, region);
  };
  return &ranks_.add(std::move(added));
}

void Attachments::say_hello(RemoteRank& rank) {
  const RankMessage& hello = hellos_.emplace_back(RankMessage{RankMessage::kHello, process_, rank.rank.value()});
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(rank.remote->endpoint(), kRankMessageId, &hello, sizeof(hello), nullptr, 0, &parameters);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

void Attachments::answered(WorldRank number) {
  RemoteRank* rank = ranks_.find(number);
  if (rank == nullptr || rank->stage != Stage::connecting) return;
  rank->stage = Stage::wired;
  if (rank->in_no_hurry) rank->since = Clock::now();
  tell(*rank, Attached::What::wired);
}

void Attachments::tell(RemoteRank& rank, Attached::What what, const std::string& reason) {
  if (what == Attached::What::failed) rank.stage = Stage::failed;
  if (what == Attached::What::reached) rank.stage = Stage::reached;
  attached_.push_back(Attached{what, rank.rank, reason, rank.alias ? kReachRdma | kReachAlias : kReachRdma});
}

std::optional<Attached> Attachments::next() {
  if (attached_.empty()) return std::nullopt;
  Attached next = std::move(attached_.front());
  attached_.pop_front();
  return next;
}

void Attachments::look_after(Clock::time_point now) {
  connect_waiting();
  for (const auto& [number, rank] : ranks_.all()) {
    if (rank->stage >= Stage::reached) continue;
    if (rank->remote->broken()) {
      tell(*rank, Attached::What::failed, "its connection broke (" + lanes_ + ")");
      continue;
    }
    if (rank->stage == Stage::trying) {
      if (now - rank->trial_since >= options_.attach_limit) rank->trial->give_up();
      continue;
    }
    const bool awaited = rank->in_no_hurry && rank->stage == Stage::connecting;
    if (awaited || now - rank->since < options_.attach_limit) continue;
    tell(*rank, Attached::What::failed,
         rank->stage == Stage::connecting ? "it does not answer over the network"
                                          : "its memory cannot be reached while it computes (" + lanes_ + ")");
  }
}

void Attachments::step(RemoteRank& rank) {
  if (rank.stage == Stage::wired && rank.reader->quiet() != 0) prove(rank);
  if (rank.is_reached() && rank.serves && rank.reader->quiet() == kRankLeaves) leave(rank);
}

void Attachments::write_proof(RemoteRank& rank, std::uint32_t of_rank_quiet, Rma::Done done) {
  std::atomic<std::uint32_t>& place = rank.mirror.header().proofs[proof_place(process_)];
  place.store(proof_of(process_, of_rank_quiet), std::memory_order_relaxed);
  rank.remote->store(&place, sizeof(place), std::move(done));
}

// The rank does not drive its network any more: writes and reads from here on need no help from it.
void Attachments::prove(RemoteRank& rank) {
  rank.stage = Stage::proving;
  write_proof(rank, kRankQuiet, [this, number = rank.rank](bool /*ok*/) {
    RemoteRank* here = ranks_.find(number);
    if (here != nullptr) here->remote->when_flushed([this, number](bool /*ok*/) { read_proof(number); });
  });
}

void Attachments::read_proof(WorldRank number) {
  RemoteRank* rank = ranks_.find(number);
  if (rank == nullptr) return;
  const auto& place = rank->mirror.header().proofs[proof_place(process_)];
  const auto came = [this, number](std::span<const std::byte> bytes) {
    std::uint32_t proof = 0;
    if (bytes.size() == sizeof(proof)) std::memcpy(&proof, bytes.data(), sizeof(proof));
    proof_read(number, proof);
  };
  rank->remote->look_at(&place, sizeof(std::uint32_t), came);
}

void Attachments::proof_read(WorldRank number, std::uint32_t proof) {
  RemoteRank* rank = ranks_.find(number);
  if (rank == nullptr || rank->stage != Stage::proving) return;
  if (proof == proof_of(process_, kRankQuiet)) return try_alias(*rank);
  tell(*rank, Attached::What::failed, "writes to its memory do not arrive");
}

void Attachments::try_alias(RemoteRank& rank) {
  if (!importer_ || !rank.offer) return tell(rank, Attached::What::reached);
  rank.stage = Stage::trying;
  rank.trial_since = Clock::now();
  const auto ended = [this, number = rank.rank](bool works) {
    RemoteRank* here = ranks_.find(number);
    if (here == nullptr || here->stage != Stage::trying) return;
    here->alias = works;
    tell(*here, Attached::What::reached);
  };
  rank.trial = std::make_unique<AliasTrial>(ranks_.rma(), *rank.remote, importer_, *rank.offer,
                                            static_cast<std::uint32_t>(proof_place(process_)), ended);
}

// Its moves end when their operations end.
void Attachments::drop(WorldRank rank) {
  std::erase_if(waiting_, [rank](const Waiting& one) { return one.rank == rank; });
  ranks_.erase(rank);
  if (imports_ != nullptr) imports_->forget(rank);
}

std::optional<WorldRank> Attachments::unreachable(Clock::time_point now) {
  for (const auto& [number, rank] : ranks_.all()) {
    if (!rank->remote->broken() || rank->left || !rank->is_reached()) continue;
    if (!rank->broken_since) rank->broken_since = now;
    if (now - *rank->broken_since >= kUntilKnownToHaveLeft) return number;
  }
  return std::nullopt;
}

// The rank frees its memory, and waits for this.
void Attachments::leave(RemoteRank& rank) {
  if (std::exchange(rank.left, true)) return;
  write_proof(rank, kRankLeaves, [](bool /*ok*/) {});
}

}  // namespace outrigger::fabric::dpu
