// A cache directory of its own for each test of a file that later jobs read.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace outrigger {

class CacheDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cache-XXXXXX";
    directory = ::mkdtemp(name.data());
    ::setenv("XDG_CACHE_HOME", directory.c_str(), 1);
    refused = 0;
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(directory);
  }
  static void refuse(const std::string& /*path*/) { ++refused; }
  [[nodiscard]] std::filesystem::path only_file() const {
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "outrigger")) {
      if (entry.path().extension() == ".txt") found = entry.path();
    }
    return found;
  }
  [[nodiscard]] std::string text_of_file() const {
    std::stringstream text;
    text << std::ifstream(only_file()).rdbuf();
    return text.str();
  }

  std::filesystem::path directory;
  static inline std::atomic<int> refused = 0;
};

}  // namespace outrigger
