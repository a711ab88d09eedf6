// The transposition between two kinds of pencils: every rank of a row or column sends each other one a block.
#pragma once

#include <mpi.h>

#include <vector>

#include "pencil.hpp"

namespace fft3d {

class Exchange {
 public:
  // From the caller's former pencil to its next one, among the ranks of `comm`, which must outlive this.
  Exchange(const Pencil& from, const Pencil& to, MPI_Comm comm);

  // Packs a pencil into send blocks, each in the order of its receiver's pencil.
  void pack(const Complex* pencil, Complex* blocks) const;
  // Unpacks received blocks into a pencil.
  void unpack(const Complex* blocks, Complex* pencil) const;

  // Both buffers belong to the MPI until the request is complete.
  void start(const Complex* send, Complex* receive, MPI_Request* request) const;
  void run(const Complex* send, Complex* receive) const;

  // Number of elements of the send and receive buffers.
  [[nodiscard]] std::size_t send_elements() const { return from_.points(); }
  [[nodiscard]] std::size_t receive_elements() const { return to_.points(); }

 private:
  // One side of the exchange: the blocks of all peers, contiguous in a buffer.
  struct Blocks {
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<Extents> extents;
    std::vector<std::size_t> offsets;  // of a block's first element in the pencil
  };
  // Cuts `pencil` along `axis` into a block for each of `peers` ranks.
  static Blocks cut(const Pencil& pencil, Axis axis, int peers);

  Pencil from_;
  Pencil to_;
  MPI_Comm comm_;
  Blocks send_;
  Blocks receive_;
};

}  // namespace fft3d
