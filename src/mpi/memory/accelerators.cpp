#include "mpi/memory/accelerators.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <string>

#include "base/file_text.hpp"

namespace outrigger::mpi {
namespace {

// Makers of accelerators. Intel's have its processors' number, but also a render node.
constexpr std::array kVendors{0x10deU, 0x1002U};
constexpr std::array kDevices{"/dev/dri/renderD128", "/dev/nvidiactl", "/dev/nvmap", "/dev/kfd", "/dev/dxg"};

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

// A driver's library that is already there counts, whatever the machine seems to have.
bool machine_may_have_one() {
  return names_accelerator(text_of_file("/proc/bus/pci/devices")) || std::ranges::any_of(kRuntimes, is_loaded) ||
         std::ranges::any_of(kDevices, [](const char* device) { return ::access(device, F_OK) == 0; });
}

}  // namespace

bool names_accelerator(std::string_view pci_devices) {
  if (pci_devices.empty()) return true;
  while (!pci_devices.empty()) {
    const std::string_view line = pci_devices.substr(0, pci_devices.find('\n'));
    pci_devices.remove_prefix(std::min(pci_devices.size(), line.size() + 1));
    constexpr std::size_t kVendorAt = 5;  // after bus, device and a tab
    constexpr std::size_t kDigits = 4;
    if (line.size() < kVendorAt + kDigits) continue;
    unsigned vendor = 0;
    std::from_chars(line.data() + kVendorAt, line.data() + kVendorAt + kDigits, vendor, 16);
    if (std::ranges::find(kVendors, vendor) != kVendors.end()) return true;
  }
  return false;
}

constinit std::atomic<detail::Accelerators> detail::accelerators = Accelerators::not_looked;

bool detail::look_for_accelerator() {
  static const bool possible = machine_may_have_one();
  accelerators.store(possible ? Accelerators::possible : Accelerators::impossible, std::memory_order_relaxed);
  if (!possible) return false;
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
