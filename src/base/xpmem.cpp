#include "base/xpmem.hpp"

#include <dlfcn.h>

namespace outrigger {
namespace {

constexpr const char* kLibrary = "libxpmem.so.0";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

struct Loaded {
  XpmemCalls calls;
  std::string problem;  // empty: available
};

Loaded load() {
  Loaded loaded;
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.problem = std::string(kLibrary) + " is not installed";
    return loaded;
  }
  XpmemCalls& calls = loaded.calls;
  if (!find(library, "xpmem_version", calls.version) || !find(library, "xpmem_make", calls.make) ||
      !find(library, "xpmem_remove", calls.remove) || !find(library, "xpmem_get", calls.get) ||
      !find(library, "xpmem_release", calls.release) || !find(library, "xpmem_attach", calls.attach) ||
      !find(library, "xpmem_detach", calls.detach)) {
    loaded.problem = std::string(kLibrary) + " lacks required functions";
  } else if (calls.version() == -1) {
    loaded.problem = "the module xpmem is not loaded, or /dev/xpmem is not permitted";
  }
  return loaded;
}

}  // namespace

const XpmemCalls* xpmem_calls(std::string* why_not) {
  static const Loaded loaded = load();
  if (why_not != nullptr) *why_not = loaded.problem;
  return loaded.problem.empty() ? &loaded.calls : nullptr;
}

}  // namespace outrigger
