// A program's work beside its collectives, each kind as a rate: higher is better.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace harm {

// Large touched arrays from malloc. `a` and `c` are also the collectives' buffers, so that the library has seen this
// memory.
struct Arrays {
  std::vector<double> a, b, c;
};

struct Test {
  const char* name;
  const char* unit;
  // One sample on the calling process, about ten milliseconds.
  double (*rate)(Arrays& arrays);
};

[[nodiscard]] std::span<const Test> tests();

}  // namespace harm
