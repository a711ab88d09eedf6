// Orders of earlier jobs, in the user's cache directory (base/line_cache.hpp): a file for each kind of machine, MPI and
// placement, with a line for each key. The first member of a communicator reads it, and sends the others what it found;
// it adds to it at the end of the job.
//
//   outrigger-sums 2
//   machine Intel(R) Xeon(R) ..., 64 CPUs
//   mpi Open MPI v4.1.4, ..., build id 5f3c...
//   cores one node, 8 members, ...
//   allreduce 4 sum float64 1024 ((0,1),(2,3))
//   allreduce 6 sum float64 1024 native                    refused: not probed again
//   scan 3 sum float64 1024 0|(0,1)|((0,1),2)              an order for each member
//
// A file that is something else is left alone, as for decisions (steer/rank/decision_file.hpp). Beyond
// kMostLines or kMostBytes the lines go that were unused for longest.
//
// Thread rule: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/line_cache.hpp"
#include "intranode/sums/order_table.hpp"
#include "intranode/sums/sum_order.hpp"

namespace outrigger::intranode {

// The order of all members of a call, or one for each.
using MemberOrders = std::vector<SumOrder>;
[[nodiscard]] std::string text_of(const MemberOrders& orders);
// Nothing: malformed.
[[nodiscard]] std::optional<MemberOrders> parse_orders(std::string_view text);

class OrderFile {
 public:
  static constexpr std::size_t kMostLines = 4096;
  // Lines of many members are long: an order of each of 64 takes some 10 KB.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  // `mpi`: name, version and build of the MPI library. `placement`: where the members are, as far as an MPI may look at
  // it. One line each. `refuse`: says that the file of this path is another one.
  OrderFile(std::string placement, std::string mpi, void (*refuse)(const std::string& path));

  // None: refused.
  [[nodiscard]] std::optional<MemberOrders> find(const OrderKey& key);
  void note(const OrderKey& key, const MemberOrders& orders);
  // Adds what was noted to the file, and dates what was found. A failed write is ignored: orders are learned again.
  void save();

 private:
  LineCache cache_;
};

}  // namespace outrigger::intranode
