// Throws through library.cpp, which it loads like the preload library: with a C++ runtime of its own.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace {

void* loaded(void* library, const char* name) {
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s: %s\n", name, dlerror());
    std::exit(1);
  }
  return found;
}

void throw_it() {
  throw std::runtime_error("of the program");
}

}  // namespace

int main(int argc, char** argv) {
  void* library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
  const auto catches_own = reinterpret_cast<bool (*)()>(loaded(library, "catches_own"));
  const auto pass_through = reinterpret_cast<void (*)(void (*)(), int*)>(loaded(library, "pass_through"));
  bool right = catches_own();
  for (int round = 0; round < 3; ++round) {
    int destroyed = 0;
    bool caught = false;
    try {
      pass_through(&throw_it, &destroyed);
    } catch (const std::runtime_error&) {
      caught = true;
    }
    right = right && caught && destroyed == 2 && catches_own();
  }
  std::puts(right ? "right" : "WRONG");
  return right ? 0 : 1;
}
