#include "mpi/memory/accelerators.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace outrigger::mpi {
namespace {

constexpr std::array kRuntimes{"libcuda.so.1", "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7",
                               "libze_loader.so.1"};

constexpr unsigned long long kLoaded = ~0ULL;

// Number of libraries ever loaded.
unsigned long long loads() {
  unsigned long long count = 0;
  const auto first = [](dl_phdr_info* info, std::size_t /*bytes*/, void* result) {
    *static_cast<unsigned long long*>(result) = info->dlpi_adds;
    return 1;
  };
  ::dl_iterate_phdr(first, &count);
  return count;
}

bool is_loaded(const char* library) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  ::dlclose(handle);
  return true;
}

}  // namespace

bool accelerator_loaded() {
  // number of loads at the last check; kLoaded: one is there
  static constinit std::atomic<unsigned long long> looked_after = 0;
  const unsigned long long known = looked_after.load(std::memory_order_relaxed);
  if (known == kLoaded) return true;
  const unsigned long long now = loads();
  if (now == known) return false;
  const bool loaded = std::ranges::any_of(kRuntimes, is_loaded);
  looked_after.store(loaded ? kLoaded : now, std::memory_order_relaxed);
  return loaded;
}

}  // namespace outrigger::mpi
