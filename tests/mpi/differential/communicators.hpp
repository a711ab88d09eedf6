// Communicators for operations, made in every way of MPI, each with a native twin that Outrigger does not offload.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "random.hpp"

namespace differential {

struct Communicator {
  std::string name;
  MPI_Comm offloaded = MPI_COMM_NULL;  // MPI_COMM_NULL on ranks that are not members
  MPI_Comm native = MPI_COMM_NULL;     // same group, made with the info outrigger=off
  int rank = 0;
  int size = 0;
  [[nodiscard]] bool member() const { return offloaded != MPI_COMM_NULL; }
};

class Communicators {
 public:
  // Collective over `parent`, which must outlive this.
  Communicators(MPI_Comm parent, Random random);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  [[nodiscard]] const std::vector<Communicator>& all() const { return all_; }

 private:
  void add(std::string name, MPI_Comm communicator, bool owned);

  std::vector<Communicator> all_;
  std::vector<MPI_Comm> owned_;
};

}  // namespace differential
