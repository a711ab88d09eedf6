// Orders of earlier jobs, in the user's cache directory (base/line_cache.hpp): a file for each kind of machine, MPI and
// placement, with a line for each key. The first member of a communicator reads it, and sends the others what it found;
// it adds to it at the end of the job.
//
//   outrigger-sums 1
//   machine Intel(R) Xeon(R) ..., 64 CPUs
//   mpi Open MPI v4.1.4, ..., build id 5f3c...
//   cores one node, 8 members, ...
//   allreduce 4 sum float64 1024 ((0,1),(2,3))
//   allreduce 6 sum float64 1024 native                    refused: not probed again
//
// A file that is something else is left alone, as for decisions (steer/rank/decision_file.hpp). At kMostLines nothing
// is added.
//
// Thread rule: any thread.
#pragma once

#include <optional>
#include <string>

#include "base/line_cache.hpp"
#include "intranode/sums/order_table.hpp"
#include "intranode/sums/sum_order.hpp"

namespace outrigger::intranode {

class OrderFile {
 public:
  // `mpi`: name, version and build of the MPI library. `placement`: where the members are, as far as an MPI may look at
  // it. One line each. `refuse`: says that the file of this path is another one.
  OrderFile(std::string placement, std::string mpi, void (*refuse)(const std::string& path));

  struct Found {
    std::optional<SumOrder> order;  // nothing: refused
  };
  [[nodiscard]] std::optional<Found> find(const OrderKey& key);
  // Nothing for `order`: refused.
  void note(const OrderKey& key, const std::optional<SumOrder>& order);
  // Adds what was noted to the file. A failed write is ignored: orders are learned again.
  void save();

 private:
  LineCache cache_;
};

}  // namespace outrigger::intranode
