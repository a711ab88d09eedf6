// Detects if this kernel collapses memory into huge pages on request (MADV_COLLAPSE, Linux 6.1).
#pragma once

#include <cstdint>
#include <string>

namespace outrigger {

inline constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack

struct HugePageSupport {
  std::uint64_t bytes = 0;  // size of a huge page; 0: not supported
  std::string why_not;      // reason if not supported
};

// Not supported if the administrator has disabled huge pages for all programs
// (/sys/kernel/mm/transparent_hugepage/enabled is `never`).
[[nodiscard]] HugePageSupport huge_page_support();

}  // namespace outrigger
