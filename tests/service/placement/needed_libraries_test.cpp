// The LD_PRELOAD of `outriggerd exec`, which depends on the libraries that the program needs.
#include "service/placement/needed_libraries.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace outrigger::service {
namespace {

using Names = std::vector<std::string>;

TEST(NeededLibraries, AreThoseOfTheFile) {
  const Names own = needed_libraries("/proc/self/exe");
  const auto has = [&own](const std::string& name) {
    return std::any_of(own.begin(), own.end(), [&name](const std::string& each) { return each.starts_with(name); });
  };
  EXPECT_TRUE(has("libc.so")) << own.size();
  EXPECT_FALSE(has("libmpi"));
}

TEST(NeededLibraries, OtherFilesHaveNone) {
  EXPECT_EQ(needed_libraries("/no/such/file"), Names{});
  EXPECT_EQ(needed_libraries("/"), Names{});
  EXPECT_EQ(needed_libraries("/proc/self/cmdline"), Names{});
}

// The reader does not crash on any damage.
TEST(NeededLibraries, DamagedFilesDoNotCrash) {
  std::ifstream own("/proc/self/exe", std::ios::binary);
  std::vector<char> head(4096);
  own.read(head.data(), static_cast<std::streamsize>(head.size()));
  const std::string path = ::testing::TempDir() + "damaged." + std::to_string(::getpid());
  for (std::size_t place = 0; place < 1024; ++place) {
    for (const char value : {'\xff', '\0', '\x7f'}) {
      std::vector<char> damaged = head;
      damaged[place] = value;
      std::ofstream(path, std::ios::binary).write(damaged.data(), static_cast<std::streamsize>(damaged.size()));
      for (const std::string& name : needed_libraries(path)) EXPECT_LE(name.size(), 1024U);
    }
  }
  ::unlink(path.c_str());
}

TEST(NeededLibraries, SanitizersMustBeFirst) {
  for (const char* name : {"libasan.so.8", "/usr/lib/libtsan.so.2", "liblsan.so.0", "libclang_rt.asan-x86_64.so"}) {
    EXPECT_TRUE(must_be_first(name)) << name;
  }
  for (const char* name : {"libubsan.so.1", "libmpi.so.40", "libc.so.6", "", "libjemalloc.so.2", "libasan"}) {
    EXPECT_FALSE(must_be_first(name)) << name;
  }
}

TEST(PreloadList, OursGoesBeforePresentOnes) {
  EXPECT_EQ(preload_list("/x/ours.so", "", {}), "/x/ours.so");
  EXPECT_EQ(preload_list("/x/heap.so:/x/ours.so", "a.so b.so", {"libmpi.so.40"}), "/x/heap.so:/x/ours.so:a.so b.so");
}

TEST(PreloadList, RuntimesThatMustBeFirstAre) {
  EXPECT_EQ(preload_list("/x/ours.so", "", {"libm.so.6", "libasan.so.8", "libubsan.so.1"}), "libasan.so.8:/x/ours.so");
  EXPECT_EQ(preload_list("/x/ours.so", "a.so /y/libasan.so.8", {}), "/y/libasan.so.8:/x/ours.so:a.so /y/libasan.so.8");
}

TEST(ProgramOnPath, IsWhatExecWouldRun) {
  EXPECT_EQ(program_on_path("./here"), "./here");
  const std::string before = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
  ::setenv("PATH", "/no/such/directory:/bin:/usr/bin", 1);
  EXPECT_EQ(program_on_path("sh"), "/bin/sh");
  EXPECT_EQ(program_on_path("no-such-program"), "");
  ::setenv("PATH", before.c_str(), 1);
}

}  // namespace
}  // namespace outrigger::service
