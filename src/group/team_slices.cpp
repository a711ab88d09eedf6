#include "group/team_slices.hpp"

#include <algorithm>

namespace outrigger::group {
namespace {

// Bytes of a vector from which members read each other's contributions directly, where they can. Slots need a step for
// each 32 KiB, and each step waits for the scheduler where members share cores.
constexpr std::uint64_t kSlicedBytes = std::uint64_t{256} << 10;

}  // namespace

Row slices_of(std::uint64_t elements, std::uint64_t element_bytes, std::uint32_t members) {
  std::vector<std::uint64_t> bytes(members);
  for (std::uint32_t member = 0; member < members; ++member) {
    const std::uint64_t first = elements * member / members;
    bytes[member] = (elements * (member + 1) / members - first) * element_bytes;
  }
  return Row(std::move(bytes));
}

bool is_sliced(const intranode::Team& team, std::uint64_t bytes) {
  return team.size() > 1 && team.copies_directly() && bytes >= kSlicedBytes;
}

}  // namespace outrigger::group
