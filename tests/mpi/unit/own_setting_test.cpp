#include "mpi/polite/own_setting.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace outrigger::mpi {
namespace {

constexpr const char* kThrottle = "MPIR_CVAR_CH4_PROGRESS_THROTTLE";

class OwnSetting : public testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    for (const char* name : {kOpenMpiYields, "I_MPI_THREAD_YIELD", kThrottle}) ::unsetenv(name);
  }
};

TEST_F(OwnSetting, OfThisMpiOnly) {
  ::setenv(kOpenMpiYields, "1", 1);
  EXPECT_EQ(own_setting("Open MPI", "Open MPI v4.1.4"), "OMPI_MCA_mpi_yield_when_idle=1");
  EXPECT_EQ(own_setting("Intel MPI", "Intel(R) MPI Library 2021.18"), "");
  ::setenv("I_MPI_THREAD_YIELD", "3", 1);
  EXPECT_EQ(own_setting("Intel MPI", "Intel(R) MPI Library 2021.18"), "I_MPI_THREAD_YIELD=3");
}

TEST_F(OwnSetting, ThatIsOn) {
  EXPECT_EQ(own_setting("Open MPI", "Open MPI v5.0.11"), "");
  ::setenv(kOpenMpiYields, "0", 1);
  EXPECT_EQ(own_setting("Open MPI", "Open MPI v5.0.11"), "");
}

TEST_F(OwnSetting, OfThisVersion) {
  ::setenv(kThrottle, "1", 1);
  EXPECT_EQ(own_setting("MPICH", "MPICH Version:\t4.0.2\nMPICH Release date:\t2022"), "");
  EXPECT_EQ(own_setting("MPICH", "MPICH Version:      5.0.2\n"), "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1");
  EXPECT_EQ(own_setting("MPICH", ""), "");
}

}  // namespace
}  // namespace outrigger::mpi
