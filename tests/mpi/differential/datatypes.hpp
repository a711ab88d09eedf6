// Random datatypes with a known signature. A *unit* is the smallest sent element (an int, a double and an int, ...). A
// type of `units` units may lay them out in any way, as long as two items one extent apart do not overlap.
#pragma once

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

#include "random.hpp"

namespace differential {

// A datatype that is freed with its owner, unless it is predefined.
class Datatype {
 public:
  Datatype() = default;
  Datatype(MPI_Datatype handle, bool owned, std::string name);
  Datatype(Datatype&& other) noexcept { swap(other); }
  Datatype& operator=(Datatype&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Datatype();

  [[nodiscard]] MPI_Datatype get() const { return handle_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  void commit() { MPI_Type_commit(&handle_); }
  void rename(std::string name) { name_ = std::move(name); }

  struct Span {
    MPI_Aint lower, extent, true_lower, true_extent;  // in bytes
  };
  [[nodiscard]] Span span() const;

 private:
  void swap(Datatype& other) noexcept;

  MPI_Datatype handle_ = MPI_DATATYPE_NULL;
  bool owned_ = false;
  std::string name_;
};

enum class UnitKind { byte, character, short_int, integer, long_long, single, real, pair, record };
constexpr int unit_kinds = 9;
int unit_bytes(UnitKind kind);  // of data, without gaps

// A committed type of `units` units. `coarse` avoids layouts of many small pieces.
Datatype make_type(Random& random, UnitKind kind, int units, bool coarse);
// A column of `units` units of a matrix with `width` columns, resized to the width of one column: neighbors interleave.
Datatype make_column(Random& random, UnitKind kind, int units, int width);
// The same type with absolute addresses, for use with MPI_BOTTOM.
Datatype at_address(const Datatype& type, const void* address);

}  // namespace differential
