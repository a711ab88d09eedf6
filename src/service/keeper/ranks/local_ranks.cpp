#include "service/keeper/ranks/local_ranks.hpp"

#include <sys/resource.h>

#include <cassert>
#include <utility>

#include "protocol/shared/segment.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// Reserved, so that further messages with descriptors can be received and answered.
constexpr rlim_t kSpareDescriptors = 64;

// New descriptors are the lowest free ones, so `fd` tells how many are open.
bool near_descriptor_limit(int fd) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) + kSpareDescriptors >= limit.rlim_cur;
}

}  // namespace

Status RankRegions::take_id(std::uint32_t region) {
  if (RegionId{region} < kFirstAddedRegion || region <= highest_) {
    return Error{"region " + std::to_string(region) + " is reserved or not new"};
  }
  highest_ = region;
  return Done{};
}

Status RankRegions::take_keyed_id(std::uint32_t region) const {
  if (is_keyed(RegionId{region}) && !regions_.contains(region)) return Done{};
  return Error{"region " + std::to_string(region) + " was not a DPU's, or is not new"};
}

Status RankRegions::add(const RegionBody& body, UniqueFd fd) {
  std::uint64_t end = 0;
  if (body.base % kPageBytes != 0 || body.bytes == 0 || __builtin_add_overflow(body.base, body.bytes, &end)) {
    return Error{"its range does not consist of whole pages"};
  }
  if (regions_.size() >= kMaxRegionsPerRank) return Error{"the rank has too many regions"};
  if (near_descriptor_limit(fd.get())) return Error{"the keeper has hardly any descriptors left (ulimit -Hn)"};
  if (Status sealed = check_sealed_memory(fd.get(), body.bytes); !sealed) return sealed;
  const bool added = regions_.emplace(body.region, Region{std::move(fd), body.base, body.bytes, {}, true}).second;
  assert(added && "ids are never reused");
  return Done{};
}

const RankRegions::Region* RankRegions::answer(std::uint32_t region, std::uint32_t sp, std::uint32_t services,
                                               bool ok) {
  const auto found = regions_.find(region);
  if (found == regions_.end() || found->second.answered.test(sp)) return nullptr;
  found->second.answered.set(sp);
  found->second.ok = found->second.ok && ok;
  return found->second.answered.count() == services ? &found->second : nullptr;
}

LocalRanks::LocalRanks(Events& events, std::uint32_t world_size, std::uint32_t local_size)
    : events_(events), world_size_(world_size), ranks_(local_size) {}

std::optional<std::string> LocalRanks::problem_of(const HelloBody& hello) const {
  if (hello.world_size != world_size_ || hello.local_size != ranks_.size()) {
    return "the job has " + std::to_string(world_size_) + " ranks, not " + std::to_string(hello.world_size);
  }
  if (hello.world_rank >= world_size_ || hello.local_rank >= ranks_.size()) return "rank out of range";
  if (ranks_[hello.local_rank].present)
    return "local rank " + std::to_string(hello.local_rank) + " has already connected";
  if (local_of_world_.contains(hello.world_rank)) {
    return "rank " + std::to_string(hello.world_rank) + " has already connected";
  }
  return std::nullopt;
}

void LocalRanks::admit(NewRank new_rank) {
  const std::uint32_t local_rank = new_rank.hello.local_rank;
  assert(!problem_of(new_rank.hello) && "only fitting ranks are admitted");
  LocalRank& rank = ranks_[local_rank];
  rank.present = true;
  rank.socket = std::move(new_rank.socket);
  rank.hello = new_rank.hello;
  rank.pid = new_rank.pid;
  events_.watch(rank.socket.fd(), {Source::rank, local_rank});
  if (rank.pid > 0) rank.exit_event = exit_event_of(rank.pid);
  if (rank.exit_event.valid()) events_.watch(rank.exit_event.get(), {Source::rank_exit, local_rank});
  local_of_world_.emplace(rank.hello.world_rank, local_rank);
}

Status LocalRanks::make_segments() {
  for (LocalRank& rank : ranks_) {
    assert(rank.present && !rank.segment.valid());
    Result<UniqueFd> fd = create_sealed_memory("outrigger-rank", SegmentView::segment_bytes(), Backing::on_touch);
    if (!fd) return Error{fd.error()};
    Result<Mapping> mapping = Mapping::map(fd.value().get(), SegmentView::segment_bytes());
    if (!mapping) return Error{mapping.error()};
    rank.segment_fd = std::move(fd).value();
    rank.segment = std::move(mapping).value();
    SegmentView(rank.segment.base()).initialize(WorldRank{rank.hello.world_rank}, world_size_);
  }
  return Done{};
}

void LocalRanks::leave(std::uint32_t local_rank) {
  LocalRank& rank = ranks_[local_rank];
  assert(rank.present);
  events_.unwatch(rank.socket.fd());
  events_.unwatch(rank.exit_event.get());
  local_of_world_.erase(rank.hello.world_rank);
  left_.push_back(RankLeftBody{rank.hello.world_rank, rank.sp});
  rank = LocalRank{};
}

void LocalRanks::close(std::uint32_t local_rank) {
  events_.unwatch(ranks_[local_rank].socket.fd());
  ranks_[local_rank].socket.close();
}

std::uint32_t LocalRanks::present() const {
  return static_cast<std::uint32_t>(local_of_world_.size());
}

std::optional<std::uint32_t> LocalRanks::find(std::uint32_t world_rank) const {
  const auto found = local_of_world_.find(world_rank);
  if (found == local_of_world_.end()) return std::nullopt;
  return found->second;
}

}  // namespace outrigger::service
