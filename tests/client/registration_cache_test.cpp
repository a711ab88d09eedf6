// Registrations of a rank's memory: they are reused, never for other memory, and never exceed the limit.
#include "client/memory/registration_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace outrigger::client {
namespace {

constexpr std::uint64_t kPage = 4096;

// Test memory: each page has a number that changes when it is unmapped. A registration keeps the numbers of its pages.
class FakeRegistrar final : public Registrar {
 public:
  void* add(std::uint64_t base, std::uint64_t bytes, KeyEntry& entry) override {
    if (live.size() >= most) return nullptr;
    auto made = std::make_unique<Registration>(Registration{base, {}});
    for (std::uint64_t at = base; at < base + bytes; at += kPage) made->pages.push_back(pages[at]);
    entry.key_bytes = sizeof(std::uint64_t);
    Registration* key = made.get();
    live.emplace(key, std::move(made));
    return key;
  }
  void remove(void* registration) override { ASSERT_EQ(live.erase(static_cast<Registration*>(registration)), 1U); }

  [[nodiscard]] bool is_current(std::uint64_t base, std::uint64_t bytes, std::uint64_t address) {
    for (const auto& [key, registration] : live) {
      if (registration->base != base || registration->pages.size() != bytes / kPage) continue;
      if (pages[address] == registration->pages[(address - base) / kPage]) return true;
    }
    return false;
  }
  void unmap(std::uint64_t begin, std::uint64_t bytes) {
    for (std::uint64_t at = begin; at < begin + bytes; at += kPage) ++pages[at];
  }

  struct Registration {
    std::uint64_t base;
    std::vector<std::uint64_t> pages;
  };
  std::map<std::uint64_t, std::uint64_t> pages;
  std::map<Registration*, std::unique_ptr<Registration>> live;
  std::size_t most = 100'000;
};

class RegistrationCacheTest : public testing::Test {
 protected:
  RegistrationCacheTest() : memory_(SegmentView::segment_bytes() / sizeof(Line)), segment_(memory_[0].bytes) {}
  struct alignas(4096) Line {
    std::byte bytes[4096];
  };
  const KeyEntry& entry(RegionId id) { return segment_.key(key_index(id)); }

  std::vector<Line> memory_;
  SegmentView segment_;
  FakeRegistrar registrar_;
  std::unique_ptr<UnmappedRanges> notes_ = std::make_unique<UnmappedRanges>();
};

TEST_F(RegistrationCacheTest, FindsWhatHoldsTheWholeRange) {
  RegistrationCache cache(registrar_, segment_, notes_.get());
  const auto first = cache.use(0x10100, 0x3000);
  ASSERT_TRUE(first);
  EXPECT_EQ(entry(*first).base, 0x10000U);
  EXPECT_EQ(entry(*first).bytes, 0x4000U);
  EXPECT_EQ(entry(*first).region, first->value());
  EXPECT_EQ(cache.use(0x11000, 0x3000), first);
  EXPECT_NE(cache.use(0x11000, 0x3001), first);
  EXPECT_EQ(cache.registered(), 2U);
  EXPECT_FALSE(cache.use(0x1000, 0));
  EXPECT_FALSE(cache.use(~std::uint64_t{0}, 2));
}

TEST_F(RegistrationCacheTest, ForgetsMemoryThatIsGivenBack) {
  RegistrationCache cache(registrar_, segment_, notes_.get());
  const auto idle = cache.use(0x10000, kPage);
  const auto busy = cache.use(0x20000, kPage);
  cache.release(*idle);
  notes_->note(0x10000, 0x11000);
  notes_->note(0x20000, 0x21000);
  const auto again = cache.use(0x20000, kPage);
  EXPECT_NE(again, busy);
  EXPECT_EQ(registrar_.live.size(), 2U) << "what is used stays until it is released";
  cache.release(*busy);
  EXPECT_EQ(registrar_.live.size(), 1U);
}

TEST_F(RegistrationCacheTest, KeepsNothingWhereNobodyTellsOfMemoryGivenBack) {
  RegistrationCache cache(registrar_, segment_, nullptr);
  const auto first = cache.use(0x10000, kPage);
  cache.release(*first);
  EXPECT_TRUE(registrar_.live.empty());
}

TEST_F(RegistrationCacheTest, GivesThePlacesOfIdleOnesToOthers) {
  RegistrationCache cache(registrar_, segment_, notes_.get());
  std::vector<RegionId> ids;
  for (std::uint32_t i = 0; i < kKeyCount; ++i) ids.push_back(*cache.use(kPage * 2 * (i + 1), kPage));
  EXPECT_FALSE(cache.use(0x40000000, kPage)) << "all are in use";
  cache.release(ids[7]);
  const auto other = cache.use(0x40000000, kPage);
  ASSERT_TRUE(other);
  EXPECT_EQ(key_index(*other), key_index(ids[7]));
  EXPECT_NE(*other, ids[7]) << "ids are not used again";
  registrar_.most = kKeyCount;
  cache.release(ids[8]);
  EXPECT_TRUE(cache.use(0x50000000, kPage)) << "idle ones make room where no more can be registered";
}

TEST_F(RegistrationCacheTest, TooManyNotesForgetEverything) {
  RegistrationCache cache(registrar_, segment_, notes_.get());
  cache.release(*cache.use(0x10000, kPage));
  for (std::uint32_t i = 0; i <= UnmappedRanges::kMost; ++i) notes_->note(0x90000000, 0x90001000);
  cache.release(*cache.use(0x20000, kPage));
  EXPECT_EQ(registrar_.live.size(), 1U);
}

// Random memory comes and goes: a registration is never found for other memory than its own.
TEST_F(RegistrationCacheTest, NeverServesOtherMemory) {
  constexpr int kSteps = 100'000;
  constexpr std::uint64_t kPages = 256;
  std::mt19937_64 random(17);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  {
    RegistrationCache cache(registrar_, segment_, notes_.get());
    struct Use {
      RegionId id;
      std::uint64_t begin;
      std::uint64_t bytes;
    };
    std::deque<Use> uses;
    for (int step = 0; step < kSteps; ++step) {
      const std::uint64_t begin = 0x100000 + below(kPages) * kPage;
      const std::uint64_t bytes = (1 + below(16)) * kPage;
      if (below(4) == 0) {
        const bool used = std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
          return use.begin < begin + bytes && begin < use.begin + use.bytes;
        });
        if (used) continue;  // programs keep buffers that are in use
        notes_->note(begin, begin + bytes);
        registrar_.unmap(begin, bytes);
      } else if (below(3) == 0 && !uses.empty()) {
        cache.release(uses.front().id);
        uses.pop_front();
      } else if (const auto id = cache.use(begin, bytes)) {
        const KeyEntry& found = entry(*id);
        ASSERT_LE(found.base, begin);
        ASSERT_GE(found.base + found.bytes, begin + bytes);
        for (std::uint64_t at = begin; at < begin + bytes; at += kPage) {
          ASSERT_TRUE(registrar_.is_current(found.base, found.bytes, at)) << "step " << step;
        }
        uses.push_back(Use{*id, begin, bytes});
      }
    }
    EXPECT_GT(cache.hits(), 1000U);
    EXPECT_LE(cache.registered(), kKeyCount);
  }
  EXPECT_TRUE(registrar_.live.empty()) << "leaked";
}

}  // namespace
}  // namespace outrigger::client
