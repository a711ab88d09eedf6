// jemalloc with prefixed names (see rename.cmake), because the program may have its own copy.
#pragma once

#define mallocx outrigger_je_mallocx
#define rallocx outrigger_je_rallocx
#define dallocx outrigger_je_dallocx
#define sallocx outrigger_je_sallocx
#define mallctl outrigger_je_mallctl

#include <jemalloc/jemalloc.h>

namespace outrigger::heap {

// The argument of experimental.arenas_create_ext, which the header does not declare.
struct arena_config_t {
  extent_hooks_t* extent_hooks;
  bool metadata_use_hooks;
};

}  // namespace outrigger::heap
