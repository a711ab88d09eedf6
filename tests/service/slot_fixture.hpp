// A rank's memory, a good slot in it, and the decoder's inputs, for tests and the fuzzer.
#pragma once

#include <cstdlib>
#include <cstring>
#include <utility>

#include "fabric/host/rank_memory.hpp"
#include "service/loop/slot_decoder.hpp"

namespace outrigger::testing {

class SlotFixture {
 public:
  static constexpr std::uint32_t kWorld = 4;
  static constexpr WorldRank kMe{2};
  static constexpr std::uint64_t kSegmentBase = 0x7000'0000'0000;
  static constexpr std::uint64_t kRegionBase = 0x4000'0000;
  static constexpr std::uint64_t kRegionBytes = 1 << 16;
  static constexpr RegionId kRegion{2};

  SlotFixture() : memory_(1, mapped(SegmentView::segment_bytes()), true), groups_(kWorld) {
    memory_.segment().initialize(kMe, kWorld);
    memory_.segment().header().rank_base_address.store(kSegmentBase);
    if (!memory_.add_region(kRegion, kRegionBase, mapped(kRegionBytes))) std::abort();
    for (std::uint32_t i = 0; i < kWorld; ++i) members()[i] = i;
  }

  [[nodiscard]] fabric::RankMemory& memory() { return memory_; }
  [[nodiscard]] service::GroupCache& groups() { return groups_; }
  [[nodiscard]] std::uint32_t* members() { return reinterpret_cast<std::uint32_t*>(memory_.segment().arena()); }
  [[nodiscard]] PairExtent* extents() { return reinterpret_cast<PairExtent*>(memory_.segment().arena() + 4096); }

  [[nodiscard]] NeighborExtent* neighbors() { return reinterpret_cast<NeighborExtent*>(extents()); }

  // In the arena, `offset` bytes from its start.
  static LocalRef arena(std::uint64_t offset, std::uint32_t count = 0) {
    return LocalRef{kArenaRegion.value(), count, kSegmentBase + SegmentView::arena_offset() + offset};
  }
  static LocalRef region(std::uint64_t offset) { return LocalRef{kRegion.value(), 0, kRegionBase + offset}; }

  [[nodiscard]] static SlotRequestBody good() {
    SlotRequestBody body;
    body.request = static_cast<std::uint16_t>(SlotRequest::operation);
    body.collective = static_cast<std::uint16_t>(Collective::ialltoall);
    body.algorithm = static_cast<std::uint16_t>(Algorithm::ring_pull);
    body.group_high = 1;
    body.group_low = 2;
    body.group_size = kWorld;
    body.group_rank = kMe.value();
    body.members = arena(0);
    body.marks = arena(2048);
    body.send = SlotLayout{region(0), 1000, 1000, {}};
    body.receive = SlotLayout{region(8192), 1000, 1000, {}};
    return body;
  }

  [[nodiscard]] Result<service::DecodedSlot> decode(const SlotRequestBody& body) {
    return service::decode_slot(body, kMe, SlotIndex{3}, memory_, kWorld, groups_);
  }

 private:
  static Mapping mapped(std::uint64_t bytes) {
    auto fd = create_sealed_memory("outrigger-test", bytes, Backing::on_touch);
    if (!fd) std::abort();
    auto mapping = Mapping::map(fd.value().get(), bytes);
    if (!mapping) std::abort();
    return std::move(mapping).value();
  }

  fabric::RankMemory memory_;
  service::GroupCache groups_;
};

// Properties of every slot that the decoder accepts; aborts otherwise.
inline void check_decoded(const service::DecodedSlot& decoded, const fabric::RankMemory& memory) {
  const auto* operation = std::get_if<engine::PostedOperation>(&decoded);
  if (operation == nullptr) return;
  const auto require = [](bool holds) {
    if (!holds) std::abort();
  };
  require(operation->members != nullptr && operation->me.value() < operation->members->size());
  require((*operation->members)[operation->me.value()] == SlotFixture::kMe);
  for (const engine::BlockLayout* layout : {&operation->send, &operation->receive}) {
    require(layout->extents.empty() || layout->extents.size() == operation->members->size());
    require(layout->base.owner == SlotFixture::kMe);
    require(layout->neighbors.empty() || is_of_neighbors(operation->collective));
    for (std::size_t i = 0; i < layout->neighbors.size(); ++i) {
      require(layout->neighbors[i].value() < operation->members->size());
      require(i == 0 || layout->neighbors[i - 1] < layout->neighbors[i]);
    }
    for (std::uint32_t i = 0; i < operation->members->size(); ++i) {
      const Block block = layout->block(GroupRank{i});
      if (block.bytes != 0) require(memory.accessible(block.memory.region, block.memory.address, block.bytes));
    }
  }
}

}  // namespace outrigger::testing
