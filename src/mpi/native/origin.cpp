#include "mpi/native/origin.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "mpi/native/module.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constinit thread_local std::uint32_t passing_here = 0;

bool is_plugin(const char* path) {
  if (path == nullptr) return false;
  std::string_view name(path);
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  return name.starts_with("mca_") || name.starts_with("libmca_") || name.starts_with("libopen-pal") ||
         name.starts_with("libopen-rte");
}

bool look_up(const void* return_address) {
  Dl_info info{};
  if (dladdr(return_address, &info) == 0) return false;
  static const void* const mpi_base = module_of(reinterpret_cast<const void*>(real().Finalize));
  return info.dli_fbase == mpi_base || is_plugin(info.dli_fname);
}

}  // namespace

PassingForMpi::PassingForMpi() {
  ++passing_here;
  detail::passing.fetch_add(1, std::memory_order_relaxed);
}

PassingForMpi::~PassingForMpi() {
  --passing_here;
  detail::passing.fetch_sub(1, std::memory_order_relaxed);
}

namespace detail {

constinit std::array<std::atomic<std::uint64_t>, kKnownCallers> known_callers{};
constinit std::atomic<std::uint32_t> passing = 0;

bool is_passing_here() {
  return passing_here != 0;
}

bool look_at_caller(const void* return_address) {
  const auto address = reinterpret_cast<std::uintptr_t>(return_address);
  const bool inside = look_up(return_address);
  known_callers[caller_entry_of(address)].store((static_cast<std::uint64_t>(address) << 1) | (inside ? 1U : 0U),
                                                std::memory_order_relaxed);
  return inside;
}

}  // namespace detail

}  // namespace outrigger::mpi
