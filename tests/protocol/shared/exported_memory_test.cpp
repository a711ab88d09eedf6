// Keys and exported handles in the key table and in a rank's address: packed ones are read back, invalid ones are
// rejected.
#include "protocol/shared/exported_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "protocol/wire/rank_address.hpp"

namespace outrigger {
namespace {

std::vector<std::byte> filled(std::size_t bytes, int value) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

TEST(ExportedMemory, ComesBackAsItWas) {
  KeyEntry entry;
  const auto key = filled(100, 1);
  const auto exported = filled(kKeyBytes - 100, 2);
  ASSERT_TRUE(pack_keys({key, exported}, entry));
  const auto keys = keys_of(entry);
  ASSERT_TRUE(keys);
  EXPECT_TRUE(std::ranges::equal(keys->key, key));
  EXPECT_TRUE(std::ranges::equal(keys->exported, exported));
  ASSERT_TRUE(pack_keys({key, {}}, entry));
  EXPECT_TRUE(keys_of(entry)->exported.empty()) << "nothing stays of what was there before";
}

TEST(ExportedMemory, LeavesOutHandlesThatDoNotFit) {
  KeyEntry entry;
  ASSERT_TRUE(pack_keys({filled(100, 1), filled(kKeyBytes - 99, 2)}, entry));
  EXPECT_TRUE(keys_of(entry)->exported.empty());
  EXPECT_FALSE(pack_keys({filled(kKeyBytes + 1, 1), {}}, entry));
  EXPECT_FALSE(pack_keys({{}, filled(1, 1)}, entry));
  EXPECT_EQ(keys_of(entry)->key.size(), 100U) << "as it was";
}

TEST(ExportedMemory, RefusesLengthsThatCannotBe) {
  KeyEntry entry;
  EXPECT_FALSE(keys_of(entry)) << "no key";
  entry.key_bytes = kKeyBytes + 1;
  EXPECT_FALSE(keys_of(entry));
  entry.key_bytes = ~0U;
  entry.export_bytes = 2;
  EXPECT_FALSE(keys_of(entry)) << "together they wrap";
  entry.key_bytes = kKeyBytes;
  entry.export_bytes = 1;
  EXPECT_FALSE(keys_of(entry));
  entry.export_bytes = 0;
  EXPECT_TRUE(keys_of(entry));
}

TEST(ExportedMemory, EachServiceProcessTriesOnMemoryOfItsOwn) {
  for (std::uint32_t sp = 0; sp < kMaxServices; ++sp) {
    EXPECT_EQ(trial_target_offset(sp), trial_source_offset(sp) + kLeastAliasBytes);
    EXPECT_EQ(trial_source_offset(sp + 1), trial_target_offset(sp) + kLeastAliasBytes);
  }
  EXPECT_EQ(trial_source_offset(kMaxServices), kExportTrialBytes);
}

TEST(ExportedMemory, ARanksAddressSaysWhereToTry) {
  const RankAddress address{0x7000, 42, filled(3, 1), filled(1, 2), ExportTrial{0x9000, filled(5, 3), filled(7, 4)}};
  const auto bytes = encoded(address);
  ASSERT_TRUE(decode_rank_address(bytes).ok());
  EXPECT_EQ(decode_rank_address(bytes).value(), address);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_rank_address(std::span(bytes).first(cut)).ok()) << cut;
  }
  RankAddress half = address;
  half.trial->exported.clear();
  EXPECT_FALSE(decode_rank_address(encoded(half)).ok());
  half = address;
  half.trial->key.clear();
  EXPECT_FALSE(decode_rank_address(encoded(half)).ok());
  half = address;
  half.trial->base = 0;
  EXPECT_FALSE(decode_rank_address(encoded(half)).ok());
  half.trial->base = 0x9001;
  EXPECT_FALSE(decode_rank_address(encoded(half)).ok());
}

}  // namespace
}  // namespace outrigger
