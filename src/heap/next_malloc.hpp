// The allocator that the program would have without the heap: the next one in the loader's order, mostly the C
// library's.
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

// Found at the first call of each; before that they point to functions that look for it. Constant initialized: malloc
// is called before constructors run.
extern constinit NextMalloc next_malloc;

}  // namespace outrigger::heap
