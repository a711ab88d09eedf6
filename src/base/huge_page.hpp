// Whether this kernel collapses a process's memory into huge pages when asked to (MADV_COLLAPSE, Linux 6.1).
#pragma once

#include <cstdint>
#include <string>

namespace outrigger {

inline constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers do not have

struct HugePageSupport {
  std::uint64_t bytes = 0;  // of such a page; 0: there are none
  std::string why_not;      // then
};

// Where the administrator has switched huge pages off for all programs
// (/sys/kernel/mm/transparent_hugepage/enabled is `never`) there are none.
[[nodiscard]] HugePageSupport huge_page_support();

}  // namespace outrigger
