#include "mpi/memory/accelerators.hpp"

#include <gtest/gtest.h>

#include <string>

namespace outrigger::mpi {
namespace {

TEST(Accelerators, MakersInTheListOfDevices) {
  constexpr const char* kBridgeAndNic = "0000\t80860d57\t0\t               0\n0008\t15b3101b\t2a\t      f0000000\n";
  EXPECT_FALSE(names_accelerator(kBridgeAndNic));
  EXPECT_TRUE(names_accelerator(std::string(kBridgeAndNic) + "4100\t10de2330\t0\t               0\n"));
  EXPECT_TRUE(names_accelerator(std::string(kBridgeAndNic) + "4100\t1002740c\t0"));
}

TEST(Accelerators, OtherNumbersAreNoMakers) {
  EXPECT_FALSE(names_accelerator("10de\t808610de\t10de\t10de\n"));
  EXPECT_FALSE(names_accelerator("\n0000\t10d\n"));
}

TEST(Accelerators, WithoutAListThereMayBeOne) {
  EXPECT_TRUE(names_accelerator(""));
}

}  // namespace
}  // namespace outrigger::mpi
