// Ranks for tests of the fabric: segments and regions as a keeper would make them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "fabric/host/host_fabric.hpp"

namespace outrigger::testing {

inline Mapping map_fresh(std::uint64_t bytes) {
  auto fd = create_sealed_memory("outrigger-test", bytes, Backing::on_touch);
  EXPECT_TRUE(fd) << fd.error();
  auto mapping = Mapping::map(fd.value().get(), bytes);
  EXPECT_TRUE(mapping) << mapping.error();
  return std::move(mapping).value();
}

// Address at which a rank would have mapped its segment.
inline constexpr std::uint64_t kSegmentBase = 0x7000'0000'0000;

inline fabric::RankMemory make_rank(WorldRank rank, pid_t pid, bool private_reachable = true) {
  Mapping segment = map_fresh(SegmentView::segment_bytes());
  const SegmentView view(segment.base());
  view.initialize(rank, 4);
  view.header().rank_base_address.store(kSegmentBase);
  return fabric::RankMemory(pid, std::move(segment), private_reachable);
}

class Ended final : public fabric::MoveCompletion {
 public:
  void moved(const fabric::MoveOutcome& outcome) override {
    EXPECT_FALSE(outcome_) << "ended twice";
    outcome_ = outcome;
  }
  [[nodiscard]] bool ended() const { return outcome_.has_value(); }
  [[nodiscard]] fabric::MoveStatus status() const { return outcome_.value().status; }
  [[nodiscard]] Reach reach() const { return outcome_.value().reach; }

 private:
  std::optional<fabric::MoveOutcome> outcome_;
};

}  // namespace outrigger::testing
