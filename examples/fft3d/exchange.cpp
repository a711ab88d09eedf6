#include "exchange.hpp"

#include <climits>

#include "fail.hpp"

namespace fft3d {

Exchange::Blocks Exchange::cut(const Pencil& pencil, Axis axis, int peers) {
  if (pencil.points() > INT_MAX) fail("a rank's part of the grid is larger than MPI's counts can say");
  Blocks blocks;
  int displacement = 0;
  for (int peer = 0; peer < peers; ++peer) {
    const Range range = share(pencil.ranges[axis].size, peers, peer);
    Extents extents = pencil.extents();
    extents[axis] = range.size;
    const int count = static_cast<int>(product(extents));
    blocks.counts.push_back(count);
    blocks.displacements.push_back(displacement);
    blocks.extents.push_back(extents);
    blocks.offsets.push_back(range.begin * pencil.strides()[axis]);
    displacement += count;
  }
  return blocks;
}

Exchange::Exchange(const Pencil& from, const Pencil& to, MPI_Comm comm) : from_(from), to_(to), comm_(comm) {
  int peers = 0;
  MPI_Comm_size(comm, &peers);
  send_ = cut(from, from.axis, peers);
  receive_ = cut(to, to.axis, peers);
}

void Exchange::pack(const Complex* pencil, Complex* blocks) const {
  for (std::size_t peer = 0; peer < send_.counts.size(); ++peer) {
    // Blocks are sent in the receiver's order, so that it copies runs.
    copy_block(pencil + send_.offsets[peer], from_.strides(), blocks + send_.displacements[peer],
               to_.strides_of(send_.extents[peer]), send_.extents[peer]);
  }
}

void Exchange::unpack(const Complex* blocks, Complex* pencil) const {
  for (std::size_t peer = 0; peer < receive_.counts.size(); ++peer) {
    copy_block(blocks + receive_.displacements[peer], to_.strides_of(receive_.extents[peer]),
               pencil + receive_.offsets[peer], to_.strides(), receive_.extents[peer]);
  }
}

void Exchange::start(const Complex* send, Complex* receive, MPI_Request* request) const {
  MPI_Ialltoallv(send, send_.counts.data(), send_.displacements.data(), MPI_C_DOUBLE_COMPLEX, receive,
                 receive_.counts.data(), receive_.displacements.data(), MPI_C_DOUBLE_COMPLEX, comm_, request);
}

void Exchange::run(const Complex* send, Complex* receive) const {
  MPI_Alltoallv(send, send_.counts.data(), send_.displacements.data(), MPI_C_DOUBLE_COMPLEX, receive,
                receive_.counts.data(), receive_.displacements.data(), MPI_C_DOUBLE_COMPLEX, comm_);
}

}  // namespace fft3d
