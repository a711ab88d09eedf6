#include "mpi/start/children.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
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

constexpr std::array<std::string_view, 4> kSanitizers = {"libasan", "libhwasan", "libtsan", "liblsan"};
constexpr std::string_view kClangRuntime = "libclang_rt.";

// `outriggerd exec` puts them in front of this library; the user's own entries are behind as well.
bool is_sanitizer(std::string_view file) {
  return file.starts_with(kClangRuntime) ||
         std::any_of(kSanitizers.begin(), kSanitizers.end(), [file](auto name) { return file.starts_with(name); });
}

// Compares file names: the loader may have found it elsewhere than at the path in the list.
std::string without_ours(std::string_view list, std::string_view file) {
  std::string kept;
  bool behind = false;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find_first_of(kSeparators));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const std::string_view name = file_name(entry);
    const bool ours = name == file || name == kHeap;
    behind = behind || ours;
    if (entry.empty() || ours || (!behind && is_sanitizer(name))) continue;
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
