// What the calls of MPI_T have in common that describe something: results are left out where the tool gives no place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "mpi/native/entry.hpp"

namespace outrigger::mpi {

// A text with its end: as much as fits into *length bytes; then *length is what all of it takes.
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

// What a call of the loaded MPI counts; its error where tools have not initialized it.
inline int native_count(Call call, int& count) {
  return pass(call, reinterpret_cast<Word>(&count));
}

}  // namespace outrigger::mpi
