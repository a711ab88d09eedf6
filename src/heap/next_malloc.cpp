#include "heap/next_malloc.hpp"

#include <dlfcn.h>

// glibc's internal names, for the loader's own allocations during the look-up of the next allocator.
extern "C" {
void* __libc_malloc(std::size_t);
void __libc_free(void*);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace outrigger::heap {
namespace {

// Called only during the look-up, never for a pointer in use.
std::size_t no_usable_bytes(void* /*memory*/) {
  return 0;
}

constexpr NextMalloc kOfLibc{__libc_malloc,  __libc_free,     __libc_calloc,
                             __libc_realloc, __libc_memalign, no_usable_bytes};

template <class Function>
void look_up(Function& place, const char* name) {
  if (void* found = ::dlsym(RTLD_NEXT, name)) place = reinterpret_cast<Function>(found);
}

void find_next() {
  next_malloc = kOfLibc;
  NextMalloc found = kOfLibc;
  look_up(found.allocate, "malloc");
  look_up(found.release, "free");
  look_up(found.allocate_zeroed, "calloc");
  look_up(found.resize, "realloc");
  look_up(found.aligned, "memalign");
  look_up(found.usable_bytes, "malloc_usable_size");
  next_malloc = found;
}

void* first_allocate(std::size_t bytes) {
  find_next();
  return next_malloc.allocate(bytes);
}
void first_release(void* memory) {
  find_next();
  next_malloc.release(memory);
}
void* first_allocate_zeroed(std::size_t count, std::size_t bytes) {
  find_next();
  return next_malloc.allocate_zeroed(count, bytes);
}
void* first_resize(void* memory, std::size_t bytes) {
  find_next();
  return next_malloc.resize(memory, bytes);
}
void* first_aligned(std::size_t alignment, std::size_t bytes) {
  find_next();
  return next_malloc.aligned(alignment, bytes);
}
std::size_t first_usable_bytes(void* memory) {
  find_next();
  return next_malloc.usable_bytes(memory);
}

}  // namespace

constinit NextMalloc next_malloc{first_allocate, first_release, first_allocate_zeroed,
                                 first_resize,   first_aligned, first_usable_bytes};

}  // namespace outrigger::heap
