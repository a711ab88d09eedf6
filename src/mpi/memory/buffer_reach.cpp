#include "mpi/memory/buffer_reach.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/futex_lock.hpp"
#include "mpi/memory/accelerators.hpp"

namespace outrigger::mpi {
namespace {

// Mappings that other processes could access at the last check. A mapping's first page shows if it has been replaced.
class KnownMappings {
 public:
  [[nodiscard]] std::optional<MappedRange> with(std::uintptr_t low, std::uintptr_t high, Access access) {
    const std::scoped_lock lock(mutex_);
    for (const MappedRange& known : known_) {
      if (known.low <= low && high <= known.high && (access == Access::read || known.writable)) return known;
    }
    return std::nullopt;
  }
  void note(const MappedRange& mapping) {
    const std::scoped_lock lock(mutex_);
    const auto same = std::ranges::find(known_, mapping.low, &MappedRange::low);
    (same != known_.end() ? *same : known_[next_++ % known_.size()]) = mapping;
  }

 private:
  static constexpr std::size_t kMost = 32;
  FutexLock mutex_;
  std::array<MappedRange, kMost> known_{};
  std::size_t next_ = 0;
};
constinit KnownMappings known_mappings;

// The handlers of MPIs and of UCX print a backtrace and end the program.
bool is_of_an_mpi(const void* code) {
  Dl_info object{};
  if (::dladdr(code, &object) == 0 || object.dli_fname == nullptr) return false;
  std::string_view name = object.dli_fname;
  name.remove_prefix(name.rfind('/') + 1);
  constexpr std::array<std::string_view, 5> kLibrariesOfMpis{"libmpi", "libopen-", "libpmpi", "libucs.", "libmca_"};
  return std::ranges::any_of(kLibrariesOfMpis, [name](std::string_view library) { return name.starts_with(library); });
}

// A handler of the program may make memory accessible on a fault.
bool program_handles_faults() {
  struct sigaction action {};
  if (::sigaction(SIGSEGV, nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
    return false;
  }
  return !is_of_an_mpi(reinterpret_cast<const void*>(action.sa_handler));
}

// Blocks that are contiguous, or all the same.
bool is_one_piece(const client::BufferLayout& layout) {
  const bool without_gaps = layout.stride_bytes == 0 || std::cmp_equal(layout.stride_bytes, layout.block_bytes);
  return layout.extents.empty() && without_gaps;
}

bool only_the_rank_reaches(std::uintptr_t low, std::uintptr_t high, Access access) {
  switch (reachable(low, high, access, [](const MappedRange& mapping) { known_mappings.note(mapping); })) {
    case Reachable::by_others: return false;
    case Reachable::by_this_process: return true;
    case Reachable::by_nobody: break;
  }
  return accelerator_loaded() || program_handles_faults();
}

}  // namespace

bool only_the_rank_reaches(const Blocks& blocks, Access access) {
  if (blocks.total_bytes() == 0) return false;
  std::optional<MappedRange> looked_at;
  const auto is_bad = [&](const std::byte* block, std::uint64_t bytes) {
    const auto low = reinterpret_cast<std::uintptr_t>(block);
    const std::uintptr_t high = low + bytes;
    if (looked_at && looked_at->low <= low && high <= looked_at->high) return false;
    looked_at = known_mappings.with(low, high, access);
    if (looked_at && others_reach_page(low, access)) return false;
    looked_at.reset();
    return only_the_rank_reaches(low, high, access);
  };
  if (is_one_piece(blocks.layout())) return is_bad(blocks.handed(0), blocks.total_bytes());
  for (std::uint32_t peer = 0; peer < blocks.peers(); ++peer) {
    if (blocks.bytes_of(peer) != 0 && is_bad(blocks.handed(peer), blocks.bytes_of(peer))) return true;
  }
  return false;
}

}  // namespace outrigger::mpi
