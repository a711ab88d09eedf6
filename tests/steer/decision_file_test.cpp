#include "steer/rank/decision_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/cache_directory.hpp"

namespace outrigger::steer {
namespace {

class KeptDecisions : public CacheDirectoryTest {
 protected:
  static DecisionFile opened(const std::string& program = "solver") {
    return {program, "own cores", [] { return std::string("Some MPI"); }, &refuse};
  }
};

TEST_F(KeptDecisions, AreFoundByLaterJobs) {
  const GroupShape shape{.ranks = 64, .nodes = 2, .ranks_per_node = 32, .services = 4};
  const CallKey key = CallKey::of(Collective::ialltoall, false, 1 << 15);
  const CallKey blocking = CallKey::of(Collective::ialltoall, true, 1 << 15);
  DecisionFile first = opened();
  EXPECT_FALSE(first.method(shape, key));
  const std::array decisions{CachedDecision{key, Method::by(Algorithm::scatter_dest)},
                             CachedDecision{blocking, Method::native()}};
  first.note(shape, decisions);
  first.save();
  DecisionFile second = opened();
  EXPECT_EQ(second.method(shape, key).value().algorithm(), Algorithm::scatter_dest);
  EXPECT_TRUE(second.method(shape, blocking).value().is_native());
  const std::string text = text_of_file();
  EXPECT_NE(text.find("\nialltoall nonblocking 15 64 2 32 4 scatter_dest 1"), std::string::npos) << text;
  EXPECT_EQ(refused, 0);

  std::ofstream(only_file(), std::ios::app) << "ialltoall nonblocking 99 64 2 32 4 native 1764300000\n";
  EXPECT_FALSE(opened().method(shape, key));
  EXPECT_EQ(refused, 1);
}

TEST_F(KeptDecisions, AreOfOneProgram) {
  const GroupShape shape{.ranks = 4, .nodes = 1, .ranks_per_node = 4, .services = 1};
  const CallKey key = CallKey::of(Collective::ibcast, false, 1 << 10);
  DecisionFile first = opened("solver");
  first.note(shape, std::array{CachedDecision{key, Method::native()}});
  first.save();
  EXPECT_TRUE(opened("solver").method(shape, key));
  DecisionFile other = opened("halo.py");
  EXPECT_FALSE(other.method(shape, key));
  other.note(shape, std::array{CachedDecision{key, Method::by(Algorithm::flat)}});
  other.save();
  EXPECT_TRUE(opened("solver").method(shape, key).value().is_native());
  EXPECT_FALSE(opened("halo.py").method(shape, key).value().is_native());
  EXPECT_EQ(refused, 0);
}

TEST_F(KeptDecisions, OldestFilesMakeRoom) {
  const GroupShape shape{.ranks = 4, .nodes = 1, .ranks_per_node = 4, .services = 1};
  const CallKey key = CallKey::of(Collective::ibcast, false, 1 << 10);
  const std::filesystem::path files = directory / "outrigger";
  std::filesystem::create_directory(files);
  const auto now = std::filesystem::file_time_type::clock::now();
  for (std::size_t i = 0; i < LineCache::kMostFiles; ++i) {
    const std::filesystem::path file = files / ("choices-" + std::to_string(i) + ".txt");
    std::ofstream(file) << "something";
    std::filesystem::last_write_time(file, now - std::chrono::hours(i == 7 ? 2 : 1));
  }
  std::ofstream(files / "sums-1.txt") << "something";
  DecisionFile first = opened();
  first.note(shape, std::array{CachedDecision{key, Method::native()}});
  first.save();
  EXPECT_TRUE(opened().method(shape, key));
  EXPECT_FALSE(std::filesystem::exists(files / "choices-7.txt"));
  EXPECT_TRUE(std::filesystem::exists(files / "choices-8.txt"));
  EXPECT_TRUE(std::filesystem::exists(files / "sums-1.txt"));
}

}  // namespace
}  // namespace outrigger::steer
