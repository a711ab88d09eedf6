// Random communicators with a topology of each kind, each with a native twin.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "../differential/random.hpp"

namespace neighbors {

// MPIs that never yield keep the core from the ranks that they wait for.
void wait_patiently(MPI_Request* request);

struct Topology {
  std::string name;
  MPI_Comm offloaded = MPI_COMM_NULL;
  MPI_Comm native = MPI_COMM_NULL;  // same group and topology, made with the info outrigger=off
  int rank = 0;
  int size = 0;
  // As the MPI lists them; MPI_PROC_NULL at the borders of a grid.
  std::vector<int> sources;
  std::vector<int> destinations;
};

class Topologies {
 public:
  // Collective over `parent`.
  Topologies(MPI_Comm parent, differential::Random random);
  ~Topologies();
  Topologies(const Topologies&) = delete;
  Topologies& operator=(const Topologies&) = delete;

  // A rank may be missing in some.
  [[nodiscard]] const std::vector<Topology>& all() const { return all_; }

 private:
  void add(std::string name, MPI_Comm communicator);

  std::vector<Topology> all_;
};

}  // namespace neighbors
