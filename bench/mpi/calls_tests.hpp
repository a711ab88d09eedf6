// The measured calls, each made by all ranks.
#pragma once

#include <mpi.h>

#include <array>
#include <span>

namespace calls {

// Objects that the calls use. Collective over MPI_COMM_WORLD.
class Objects {
 public:
  Objects();
  ~Objects();
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  int rank = 0;
  int peer = 0;  // the next rank
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Win window = MPI_WIN_NULL;
  std::array<char, 4096> memory{};  // memory of windows
  std::array<long, 64> sent{};
  std::array<long, 4096> received{};
};

struct Test {
  const char* name;
  int calls;  // per sample
  void (*call)(Objects& objects);
};

[[nodiscard]] std::span<const Test> tests();

}  // namespace calls
