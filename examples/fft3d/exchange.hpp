// The transposition between two kinds of pencils: every rank of a row or column sends each other one a block.
#pragma once

#include <mpi.h>

#include <vector>

#include "pencil.hpp"

namespace fft3d {

class Exchange {
 public:
  // From the caller's pencil before to its pencil after, among the ranks of `comm`, which must outlive this.
  Exchange(const Pencil& from, const Pencil& to, MPI_Comm comm);

  // From a pencil into the blocks to be sent, each in the order of the pencil it is for.
  void pack(const Complex* pencil, Complex* blocks) const;
  // From the blocks received into a pencil.
  void unpack(const Complex* blocks, Complex* pencil) const;

  // Both buffers belong to the MPI until the request is complete.
  void start(const Complex* send, Complex* receive, MPI_Request* request) const;
  void run(const Complex* send, Complex* receive) const;

  // Elements that a buffer for sending or receiving holds.
  [[nodiscard]] std::size_t send_elements() const { return from_.points(); }
  [[nodiscard]] std::size_t receive_elements() const { return to_.points(); }

 private:
  // One side of the exchange: the blocks of all peers lie one after the other in a buffer.
  struct Blocks {
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<Extents> extents;
    std::vector<std::size_t> offsets;  // of a block's first element in the pencil
  };
  // `pencil` cut along `axis` into a block for each of `peers` ranks.
  static Blocks cut(const Pencil& pencil, Axis axis, int peers);

  Pencil from_;
  Pencil to_;
  MPI_Comm comm_;
  Blocks send_;
  Blocks receive_;
};

}  // namespace fft3d
