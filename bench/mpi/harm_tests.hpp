// What a program does beside its collectives, each as a rate: more is better.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace harm {

// Large arrays, touched, from malloc. `a` and `c` also carry the collectives, so that the library knows this memory.
struct Arrays {
  std::vector<double> a, b, c;
};

struct Test {
  const char* name;
  const char* unit;
  // One sample on the calling process, some ten milliseconds.
  double (*rate)(Arrays& arrays);
};

[[nodiscard]] std::span<const Test> tests();

}  // namespace harm
