#include "protocol/build_version.hpp"

#include <gtest/gtest.h>

#include "protocol/shared/segment.hpp"

namespace outrigger {
namespace {

TEST(BuildVersion, IsTheReleaseAndTheProtocol) {
  EXPECT_EQ(build_version() & 0xFFU, kProtocolVersion);
  EXPECT_GT(build_version(), 0xFFU) << "a release is never 0.0.0";
}

TEST(BuildVersion, IsNamedForPeople) {
  EXPECT_EQ(build_version_text(0x00010015), "0.1.0 (protocol 21)");
  EXPECT_EQ(build_version_text(0x0C22FF16), "12.34.255 (protocol 22)");
  EXPECT_EQ(build_version_text(21), "an older release (protocol 21)");
  EXPECT_EQ(other_build_text(0x00090015), "the other end is of another version, 0.9.0 (protocol 21); this one is " +
                                              build_version_text(build_version()));
}

}  // namespace
}  // namespace outrigger
