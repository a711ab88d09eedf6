#include "mpi/start/children.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace outrigger::mpi {
namespace {

constexpr const char* kVariable = "LD_PRELOAD";
constexpr std::string_view kSeparators = ": ";  // ld.so(8)

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

constexpr std::string_view kHeap = "liboutrigger-heap.so";

// By its file name: the loader may have found it elsewhere than at the path in the list.
std::string without_ours(std::string_view list, std::string_view file) {
  std::string kept;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find_first_of(kSeparators));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    if (entry.empty() || file_name(entry) == file || file_name(entry) == kHeap) continue;
    if (!kept.empty()) kept += ':';
    kept += entry;
  }
  return kept;
}

}  // namespace

void spare_children() {
  static const char anchor = 0;
  Dl_info own{};
  const char* list = std::getenv(kVariable);
  if (list == nullptr || ::dladdr(&anchor, &own) == 0 || own.dli_fname == nullptr) return;
  const std::string_view file = file_name(own.dli_fname);
  if (std::string_view(list).find(file) == std::string_view::npos) return;
  const std::string kept = without_ours(list, file);
  static_cast<void>(kept.empty() ? ::unsetenv(kVariable) : ::setenv(kVariable, kept.c_str(), 1));
}

}  // namespace outrigger::mpi
