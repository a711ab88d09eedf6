#include "base/file_text.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace outrigger {
namespace {

TEST(FileText, IsWholeWhateverItsLength) {
  const std::string path = std::filesystem::temp_directory_path() / ("outrigger-text-" + std::to_string(::getpid()));
  for (const std::size_t bytes : {0U, 1U, 4095U, 4096U, 4097U, 100'000U}) {
    const std::string text(bytes, 'x');
    std::ofstream(path) << text;
    EXPECT_EQ(text_of_file(path), text);
  }
  std::filesystem::remove(path);
}

TEST(FileText, IsEmptyWhereThereIsNone) {
  EXPECT_EQ(text_of_file("/proc/self/no-such-file"), "");
}

// The kernel opens these and refuses to read them.
TEST(FileText, IsEmptyWhereReadingFails) {
  EXPECT_EQ(text_of_file("/proc"), "");
  EXPECT_EQ(text_of_file("/proc/self/mem"), "");
}

}  // namespace
}  // namespace outrigger
