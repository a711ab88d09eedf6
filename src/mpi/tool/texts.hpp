// Common code of descriptive MPI_T calls: results without a place are left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "mpi/native/entry.hpp"

namespace outrigger::mpi {

// A text with its end: as much as fits into *length bytes; then *length is the size of all of it.
inline void give_text(char* place, int* length, std::string_view text) {
  if (length == nullptr) return;
  if (place != nullptr && *length > 0) {
    const std::size_t copied = text.copy(place, static_cast<std::size_t>(*length) - 1);
    place[copied] = '\0';
  }
  *length = static_cast<int>(text.size()) + 1;
}

template <class Value>
void give(Value* place, Value value) {
  if (place != nullptr) *place = value;
}

// The count that a call of the loaded MPI returns; its error if tools have not initialized it.
inline int native_count(Call call, int& count) {
  return pass(call, reinterpret_cast<Word>(&count));
}

}  // namespace outrigger::mpi
