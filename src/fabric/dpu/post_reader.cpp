#include "fabric/dpu/post_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace outrigger::fabric::dpu {

PostReader::PostReader(RemoteMemory& remote, HostFabric& node, WorldRank rank, std::uint32_t world_size,
                       bool from_start)
    : remote_(remote), node_(node), rank_(rank), world_size_(world_size), reads_posts_(from_start) {
  static_assert(offsetof(SegmentHeader, rank_sleeping) - offsetof(SegmentHeader, ring_tail) ==
                offsetof(Line, rank_sleeping));
  static_assert(offsetof(SegmentHeader, rank_base_address) - offsetof(SegmentHeader, ring_tail) ==
                offsetof(Line, rank_base_address));
  static_assert(offsetof(SegmentHeader, rank_quiet) - offsetof(SegmentHeader, ring_tail) == offsetof(Line, rank_quiet));
  static_assert(offsetof(SegmentHeader, rank_lends) - offsetof(SegmentHeader, ring_tail) == offsetof(Line, rank_lends));
  static_assert(offsetof(SegmentHeader, rank_lends_turns) - offsetof(SegmentHeader, ring_tail) ==
                offsetof(Line, rank_lends_turns));
  static_assert(offsetof(SegmentHeader, copier_lends) - offsetof(SegmentHeader, ring_tail) ==
                offsetof(Line, copier_lends));
}

void PostReader::resume(std::uint32_t tail, std::vector<SlotIndex> slots, Rma::Done done) {
  reads_posts_ = true;
  fetched_ = tail;
  seen_tail_ = tail;
  batch_ = std::make_shared<Batch>(Batch{this, 0, false, std::move(slots), std::move(done)});
  read_arguments(batch_);
}

void PostReader::poll() {
  if (polling_ || batch_ || remote_.broken()) return;
  polling_ = true;
  const SegmentHeader& header = remote_.mirror().header();
  const bool for_posts = reads_posts_;
  const auto came = [this, for_posts, alive = std::weak_ptr(alive_)](std::span<const std::byte> bytes) {
    if (alive.expired()) return;
    polling_ = false;
    const bool ok = bytes.size() == sizeof(Line);
    if (ok) {
      Line line;
      std::memcpy(&line, bytes.data(), sizeof(line));
      line_came(line, for_posts);
    }
    for (const Rma::Done& looked : std::exchange(looked_, std::exchange(looked_later_, {}))) looked(ok);
  };
  remote_.look_at(&header.ring_tail, sizeof(Line), came);
}

void PostReader::line_came(const Line& line, bool for_posts) {
  SegmentHeader& header = remote_.mirror().header();
  header.rank_sleeping.store(line.rank_sleeping, std::memory_order_relaxed);
  quiet_ = line.rank_quiet;
  offer_ = line.rank_lends != 0     ? copy::Offer::waiting
           : line.copier_lends != 0 ? copy::Offer::copier
                                    : copy::Offer::none;
  turns_ = line.rank_lends_turns;
  if (!for_posts || batch_) return;  // a poll that began before resume()
  seen_tail_ = line.ring_tail;
  const std::uint32_t posted = seen_tail_ - fetched_;
  if (posted == 0) return;
  if (posted > kSlotCount) return header.ring_tail.store(seen_tail_, std::memory_order_release);
  read_ring();
}

void PostReader::read_ring() {
  const std::uint32_t until_wrap = kSlotCount - fetched_ % kSlotCount;
  const std::uint32_t posts = std::min({seen_tail_ - fetched_, until_wrap, kMostAtOnce});
  batch_ = std::make_shared<Batch>(Batch{this, posts, false, {}, {}});
  const auto& first = remote_.mirror().ring_entry(fetched_);
  remote_.fetch(&first, posts * sizeof(first), [this, batch = batch_, alive = std::weak_ptr(alive_)](bool ok) {
    if (alive.expired()) return;
    if (ok) return read_slots(batch);
    batch_.reset();
  });
}

// Each callback holds the batch; the next stage begins when the last one of a stage has released it.
void PostReader::read_slots(const BatchPtr& batch) {
  for (std::uint32_t i = 0; i < batch->posts; ++i) {
    const std::uint32_t slot = remote_.mirror().ring_entry(fetched_ + i).load(std::memory_order_relaxed);
    if (slot < kSlotCount) batch->slots.emplace_back(slot);
  }
  if (batch->slots.empty()) return publish(batch->posts);
  auto left = std::make_shared<std::size_t>(batch->slots.size());
  for (const SlotIndex slot : batch->slots) {
    const SlotRequestBody& body = remote_.mirror().slot(slot).body;
    remote_.fetch(&body, sizeof(body), [this, batch, left, alive = std::weak_ptr(alive_)](bool ok) {
      if (alive.expired()) return;
      batch->failed = batch->failed || !ok;
      if (--*left != 0) return;
      batch->failed ? batch_.reset() : read_arguments(batch);
    });
  }
}

void PostReader::read_arguments(const BatchPtr& batch) {
  // Publishes the batch when the last copy of this pointer is destroyed.
  const std::shared_ptr<void> all(nullptr, [this, batch, alive = std::weak_ptr(alive_)](void*) {
    if (!alive.expired() && batch_ == batch) arguments_came(batch);
  });
  stage_ = all;
  for (const SlotIndex slot : batch->slots) {
    SlotRequestBody body;
    std::memcpy(&body, &remote_.mirror().slot(slot).body, sizeof(body));
    read_arguments_of(batch, body);
  }
  stage_.reset();
}

void PostReader::arguments_came(const BatchPtr& batch) {
  if (batch->resumed) {
    batch_.reset();
    return batch->resumed(!batch->failed);
  }
  batch->failed ? batch_.reset() : publish(batch->posts);
}

void PostReader::read_arguments_of(const BatchPtr& batch, const SlotRequestBody& body) {
  if (body.request != static_cast<std::uint16_t>(SlotRequest::operation)) return;
  const std::uint64_t ranks = body.group_size;
  if (ranks == 0 || ranks > std::min(kMaxGroupSize, world_size_)) return;
  read_array(batch, body.members, ranks * sizeof(std::uint32_t), false);
  read_array(batch, body.marks, ranks, !batch->resumed);
  const bool of_neighbors = is_of_neighbors(static_cast<Collective>(body.collective));
  for (const LocalRef& extents : {body.send.extents, body.receive.extents}) {
    const std::uint64_t bytes = of_neighbors ? std::min<std::uint64_t>(extents.count, ranks) * sizeof(NeighborExtent)
                                             : ranks * sizeof(PairExtent);
    if (extents.region != 0) read_array(batch, extents, bytes, false);
  }
  know_range(batch, body.send.base);
  know_range(batch, body.receive.base);
}

// Argument memory: the mirror has the whole range, like the arena.
void PostReader::read_array(const BatchPtr& batch, LocalRef ref, std::uint64_t bytes, bool zeroed) {
  const RegionId region{ref.region};
  remote_.with_range(region, [=, this, stage = stage_](const RemoteRangePtr& range) {
    if (!range || !range->holds(ref.address, bytes)) return;  // also called if this reader is gone
    RankMemory* memory = node_.rank(rank_);
    if (memory == nullptr) return;
    if (is_keyed(region) && memory->mapped(region, range->base(), range->bytes()) == nullptr) {
      const Result<UniqueFd> fd = create_sealed_memory("outrigger-mirror", range->bytes(), Backing::on_touch);
      if (!fd) return;
      Result<Mapping> mapping = Mapping::map(fd.value().get(), range->bytes());
      if (!mapping || !memory->add_region(region, range->base(), std::move(mapping).value())) return;
    }
    std::byte* here = memory->mapped(region, ref.address, bytes);
    if (here == nullptr) return;
    if (zeroed) return static_cast<void>(std::memset(here, 0, bytes));
    // The mirror may be gone when the read ends.
    const auto came = std::make_shared<std::vector<std::byte>>(bytes);
    const auto copy = [this, came, region, ref](bool read) {
      RankMemory* now = node_.rank(rank_);
      std::byte* to = read && now != nullptr ? now->mapped(region, ref.address, came->size()) : nullptr;
      if (to != nullptr) std::ranges::copy(*came, to);
    };
    const auto ended = [copy, came, batch, stage, alive = std::weak_ptr(alive_)](MoveStatus status) {
      batch->failed = batch->failed || status == MoveStatus::owner_lost;
      if (!alive.expired()) copy(status == MoveStatus::ok);
    };
    remote_.get(MemoryRef{WorldRank{}, region, ref.address}, *came, ended);
  });
}

void PostReader::know_range(const BatchPtr& /*batch*/, LocalRef ref) {
  const RegionId region{ref.region};
  if (!is_keyed(region)) return;
  remote_.with_range(region, [this, region, stage = stage_](const RemoteRangePtr& range) {
    if (!range) return;
    RankMemory* memory = node_.rank(rank_);
    if (memory != nullptr) (void)memory->add_range(region, range->base(), range->bytes());
  });
}

void PostReader::publish(std::uint32_t posts) {
  fetched_ += posts;
  batch_.reset();
  remote_.mirror().header().ring_tail.store(fetched_, std::memory_order_release);
}

}  // namespace outrigger::fabric::dpu
