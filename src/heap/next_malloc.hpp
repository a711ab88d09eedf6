// The next allocator in the loader's order, which the program would use without the heap; mostly the C library's.
#pragma once

#include <cstddef>

namespace outrigger::heap {

struct NextMalloc {
  void* (*allocate)(std::size_t);
  void (*release)(void*);
  void* (*allocate_zeroed)(std::size_t, std::size_t);
  void* (*resize)(void*, std::size_t);
  void* (*aligned)(std::size_t, std::size_t);  // memalign
  std::size_t (*usable_bytes)(void*);
};

// Each is resolved at its first call; before that it points to a resolver. Constant initialized: malloc is called
// before constructors run.
extern constinit NextMalloc next_malloc;

}  // namespace outrigger::heap
