// A report's file is there whole or not at all.
#include "base/whole_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace outrigger::report {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() : directory_(fs::temp_directory_path() / ("outrigger-file-test-" + std::to_string(::getpid()))) {
    fs::create_directory(directory_);
  }
  ~File() override { fs::remove_all(directory_); }
  [[nodiscard]] std::string path(const char* name = "report") const { return directory_ / name; }
  [[nodiscard]] static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  [[nodiscard]] long files() const { return std::distance(fs::directory_iterator(directory_), {}); }

 private:
  fs::path directory_;
};

TEST_F(File, TakesThePlaceOfAnEarlierOneAndLeavesNothingBeside) {
  ASSERT_TRUE(write_file(path(), "first", false).ok());
  fs::permissions(path(), fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(write_file(path(), "second", true).ok());
  EXPECT_EQ(text_of(path()), "second");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1);
}

TEST_F(File, LinksStay) {
  ASSERT_TRUE(write_file(path("target"), "first", true).ok());
  fs::create_symlink(path("target"), path("link"));
  ASSERT_TRUE(write_file(path("link"), "second", true).ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text_of(path("target")), "second");
}

TEST_F(File, WritersAtATimeLeaveOneOfTheirs) {
  const std::string first(100'000, 'a');
  const std::string second(200'000, 'b');
  std::vector<std::thread> writers;
  for (const std::string& text : {first, second, first, second}) {
    writers.emplace_back([this, text] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(write_file(path(), text, true).ok());
    });
  }
  bool appeared = false;
  for (int i = 0; i < 200; ++i) {
    const std::string seen = text_of(path());
    EXPECT_TRUE((seen.empty() && !appeared) || seen == first || seen == second);
    appeared = appeared || !seen.empty();
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(files(), 1);
}

TEST_F(File, WhatIsNoFileIsWrittenToOnce) {
  EXPECT_TRUE(write_file("/dev/null", "text", false).ok());
  EXPECT_TRUE(write_file("/dev/null", "text", true).ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(File, WhereItCannotBeIsAnError) {
  EXPECT_FALSE(write_file(path("none/report"), "text", true).ok());
}

}  // namespace
}  // namespace outrigger::report
