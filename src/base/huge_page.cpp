#include "base/huge_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/unique_fd.hpp"

namespace outrigger {
namespace {

std::string contents_of(const char* path) {
  std::array<char, 128> text{};
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t bytes = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

}  // namespace

HugePageSupport huge_page_support() {
  const std::string enabled = contents_of("/sys/kernel/mm/transparent_hugepage/enabled");
  if (enabled.empty()) return {0, "the kernel has no transparent huge pages"};
  if (enabled.find("[never]") != std::string::npos) {
    return {0, "/sys/kernel/mm/transparent_hugepage/enabled is never; an administrator can set it to madvise"};
  }
  // An empty range: tests if the kernel has this advice.
  if (::madvise(nullptr, 0, kCollapse) != 0) return {0, "needs MADV_COLLAPSE (Linux 6.1 or later)"};
  const std::string size = contents_of("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  std::uint64_t bytes = 0;
  const auto read = std::from_chars(size.data(), size.data() + size.size(), bytes);
  if (read.ec != std::errc() || !std::has_single_bit(bytes)) return {0, "the kernel does not report their size"};
  return {bytes, {}};
}

}  // namespace outrigger
