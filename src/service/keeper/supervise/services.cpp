#include "service/keeper/supervise/services.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/options/transports.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

Status answer_region(LocalRank& rank, std::uint32_t region, bool ok) {
  const RegionAddedBody answer{rank.hello.world_rank, region, ok ? 1U : 0U, 0};
  if (!rank.socket.open() || rank.tell(ControlKind::region_added, answer)) return Done{};
  return Error{"its socket is full: it reads no messages"};
}

}  // namespace

Status Services::pass_rank_address(const LocalRank&, const SharedBytesBody&, const UniqueFd&) {
  return Error{"an unexpected address"};
}

ConfigureBody Services::configuration(std::uint32_t sp) const {
  ConfigureBody body;
  body.sp = sp;
  body.sp_count = count();
  body.world_size = config_.world_size;
  body.local_size = config_.local_size;
  body.cpu = place(sp).cpu;
  body.core_share = place(sp).core_share;
  body.reach_allowed = config_.reach_allowed;
  body.nodes = config_.nodes;
  body.traced = config_.traced ? 1 : 0;
  const std::string transports = allowed_transports();
  if (transports.size() < body.transports.size()) std::ranges::copy(transports, body.transports.begin());
  return body;
}

Status Services::add_region(LocalRank& rank, RegionBody body, UniqueFd fd) {
  const bool of_dpu = instead_of_dpu_ && is_keyed(RegionId{body.region});
  Status taken = of_dpu ? rank.regions.take_keyed_id(body.region) : rank.regions.take_id(body.region);
  if (!taken) return taken;
  const int raw = fd.get();
  Status accepted = take_regions();
  if (accepted) accepted = rank.regions.add(body, std::move(fd));
  if (!accepted) {
    spdlog::warn("rank {}, region {}: {}", rank.hello.world_rank, body.region, accepted.error());
    return answer_region(rank, body.region, false);
  }
  body.world_rank = rank.hello.world_rank;
  tell_all(ControlKind::region_add, body, std::span(&raw, 1));
  return Done{};
}

Status Services::drop_region(LocalRank& rank, RegionBody body) {
  if (!rank.regions.has_been(body.region)) return Error{"it dropped a region that it had not added"};
  body.world_rank = rank.hello.world_rank;
  if (rank.regions.drop(body.region)) tell_all(ControlKind::region_drop, body);
  return Done{};
}

Status Services::region_added(std::uint32_t sp, LocalRank& rank, const RegionAddedBody& body) {
  const RankRegions::Region* region = rank.regions.answer(body.region, sp, count(), body.ok != 0);
  if (region == nullptr) return Done{};
  const bool ok = region->ok;
  if (!ok) {
    tell_all(ControlKind::region_drop, RegionBody{body.world_rank, body.region, region->base, region->bytes});
    (void)rank.regions.drop(body.region);
  }
  return answer_region(rank, body.region, ok);
}

void Services::fail(std::string reason) {
  if (!failure_) failure_ = std::move(reason);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

}  // namespace outrigger::service
