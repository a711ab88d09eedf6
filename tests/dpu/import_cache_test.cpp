// Imported memory: found again, in step with its registration, held while it is used, never more than there is room
// for.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "fabric/dpu/alias.hpp"

namespace outrigger::fabric::dpu {
namespace {

constexpr WorldRank kRank{3};
constexpr std::uint64_t kBytes = 0x1000;

// A handle's first byte says whether it is refused.
class FakeImporter final : public Importer {
 public:
  ucp_mem_h import(std::span<const std::byte> exported) override {
    ++imports;
    if (exported[0] == std::byte{0}) return nullptr;
    auto memory = reinterpret_cast<ucp_mem_h>(++last);
    live.insert(memory);
    return memory;
  }
  void release(ucp_mem_h memory) override { EXPECT_EQ(live.erase(memory), 1U); }

  int imports = 0;
  std::uintptr_t last = 0;
  std::set<ucp_mem_h> live;
};

class ImportCacheTest : public testing::Test {
 protected:
  static constexpr std::size_t kMost = 4;
  static ImportCache::Exported exported(std::uint32_t index, std::uint64_t base, WorldRank rank = kRank) {
    static constexpr std::array<std::byte, 1> kGood{std::byte{1}};
    return {rank, keyed_region(index, 1), base, kBytes, kGood};
  }
  static ImportCache::Exported bad(std::uint32_t index, std::uint64_t base) {
    static constexpr std::array<std::byte, 1> kBad{std::byte{0}};
    ImportCache::Exported of_no_use = exported(index, base);
    of_no_use.handle = kBad;
    return of_no_use;
  }

  std::shared_ptr<FakeImporter> importer_ = std::make_shared<FakeImporter>();
  ImportCache cache_{importer_, kMost};
};

TEST_F(ImportCacheTest, ImportsOnce) {
  const ImportedPtr first = cache_.use(exported(0, 0x10000));
  ASSERT_TRUE(first);
  EXPECT_EQ(cache_.use(exported(0, 0x10000)), first);
  EXPECT_NE(cache_.use(exported(0, 0x10000, WorldRank{4})), first) << "another rank's";
  EXPECT_EQ(importer_->imports, 2);
}

TEST_F(ImportCacheTest, AsksOnceForWhatIsRefused) {
  EXPECT_FALSE(cache_.use(bad(0, 0x10000)));
  EXPECT_FALSE(cache_.use(bad(0, 0x10000)));
  EXPECT_EQ(importer_->imports, 1);
  ImportCache::Exported nothing = exported(1, 0x20000);
  nothing.handle = {};
  EXPECT_FALSE(cache_.use(nothing));
  EXPECT_EQ(importer_->imports, 1);
}

TEST_F(ImportCacheTest, DoesNotUseAgainWhatHasFailed) {
  ImportedPtr used = cache_.use(exported(0, 0x10000));
  cache_.refuse(kRank, keyed_region(0, 1));
  EXPECT_EQ(importer_->live.size(), 1U) << "still in use";
  EXPECT_FALSE(cache_.use(exported(0, 0x10000)));
  used.reset();
  EXPECT_TRUE(importer_->live.empty());
  cache_.refuse(kRank, keyed_region(9, 1));  // of which nothing is known
}

TEST_F(ImportCacheTest, GoesWithTheRegistration) {
  ImportedPtr used = cache_.use(exported(0, 0x10000));
  cache_.forget(kRank, keyed_region(0, 1));
  EXPECT_EQ(importer_->live.size(), 1U) << "a move holds it";
  used.reset();
  EXPECT_TRUE(importer_->live.empty());
  EXPECT_TRUE(cache_.use(exported(0, 0x10000)));
  EXPECT_TRUE(cache_.use(exported(1, 0x20000, WorldRank{4})));
  cache_.forget(kRank);
  EXPECT_EQ(importer_->live.size(), 1U) << "the other rank's stays";
}

TEST_F(ImportCacheTest, MemoryThatIsRegisteredAnewIsImportedAnew) {
  ImportedPtr old = cache_.use(exported(0, 0x10000));
  EXPECT_FALSE(cache_.use(exported(1, 0x10000 + kBytes - 1))) << "while what overlaps is in use it is not imported";
  EXPECT_TRUE(cache_.use(exported(2, 0x10000 + kBytes))) << "what only borders is";
  EXPECT_TRUE(cache_.use(exported(3, 0x10000, WorldRank{4}))) << "another rank's addresses are other memory";
  old.reset();
  EXPECT_TRUE(cache_.use(exported(1, 0x10000 + kBytes - 1))) << "and then it is";
  EXPECT_EQ(importer_->live.size(), 2U) << "both that it overlaps have gone";
}

TEST_F(ImportCacheTest, TheOldestIdleGivesWay) {
  std::vector<ImportedPtr> used;
  for (std::uint32_t index = 0; index < kMost; ++index) {
    used.push_back(cache_.use(exported(index, 0x10000 * (index + 1))));
  }
  EXPECT_FALSE(cache_.use(exported(8, 0x900000))) << "all are in use";
  used[1].reset();
  used[2].reset();
  EXPECT_TRUE(cache_.use(exported(1, 0x20000)));
  EXPECT_TRUE(cache_.use(exported(8, 0x900000)));
  EXPECT_EQ(cache_.size(), kMost);
  const int imports = importer_->imports;
  EXPECT_TRUE(cache_.use(exported(1, 0x20000)));
  EXPECT_EQ(importer_->imports, imports) << "it was not the oldest";
}

// Registrations coming and going: what is found is what was exported under that name, and nothing is leaked.
TEST_F(ImportCacheTest, LeaksNothing) {
  std::mt19937 random(5);
  std::vector<ImportedPtr> used(8);
  for (int step = 0; step < 20'000; ++step) {
    const std::uint32_t index = random() % 8;
    const std::uint64_t base = 0x10000 + random() % 16 * (kBytes / 2);
    ImportedPtr found;
    switch (random() % 5) {
      case 0: cache_.forget(kRank, keyed_region(index, 1)); break;
      case 1: cache_.refuse(kRank, keyed_region(index, 1)); break;
      case 2: used[index].reset(); break;
      default:
        found = cache_.use(exported(index, base));
        if (found) {
          ASSERT_TRUE(importer_->live.contains(found->get()));
        }
        used[index] = std::move(found);
    }
    ASSERT_LE(cache_.size(), kMost);
    ASSERT_LE(importer_->live.size(), kMost + used.size());
  }
  used.clear();
  cache_.forget(kRank);
  EXPECT_TRUE(importer_->live.empty());
}

}  // namespace
}  // namespace outrigger::fabric::dpu
