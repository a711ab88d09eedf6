// An all-to-all on MPI_COMM_WORLD, once a round, whose bytes are checked.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "persistent_calls.hpp"

class Exchange {
 public:
  Exchange() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    sent_.resize(static_cast<std::size_t>(size_) * kBlock);
    received_.resize(sent_.size());
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  void post(int round, MPI_Request* request) {
    fill(round);
    MPI_Ialltoall(sent_.data(), kBlock, MPI_INT, received_.data(), kBlock, MPI_INT, MPI_COMM_WORLD, request);
  }
  // To be started.
  void describe(int round, MPI_Request* request) {
    fill(round);
    persistent::calls().alltoall(sent_.data(), kBlock, MPI_INT, received_.data(), kBlock, MPI_INT, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, request);
  }
  [[nodiscard]] bool is_right(int round) const {
    for (std::size_t i = 0; i < received_.size(); ++i) {
      if (received_[i] != value(round, static_cast<int>(i / kBlock), rank_)) return false;
    }
    return true;
  }

  static constexpr int kBlock = 4096;

 private:
  void fill(int round) {
    for (std::size_t i = 0; i < sent_.size(); ++i) sent_[i] = value(round, rank_, static_cast<int>(i / kBlock));
    received_.assign(received_.size(), -1);
  }
  static int value(int round, int from, int to) { return (round * 64 + from) * 64 + to; }

  int rank_ = 0;
  int size_ = 0;
  std::vector<int> sent_;
  std::vector<int> received_;
};
