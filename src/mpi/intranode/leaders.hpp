// The communicator of the nodes' first ranks (nodes_map.hpp), by which the nodes exchange bytes: by the MPI's own
// calls. The program never sees it.
//
// Ranks of it are nodes. Functions return MPI error codes, and call no error handler. Sizes are in bytes.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mpi/intranode/nodes_map.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// Elements and an operation as the MPI names them.
struct NativeReduction {
  int count = 0;
  MPI_Datatype type{};
  MPI_Op operation{};
};

class Leaders {
 public:
  // Collective over `comm`. On ranks that lead no node it has no communicator. Nothing: the MPI has none left.
  [[nodiscard]] static std::optional<Leaders> make(MPI_Comm comm, bool leads);
  // Before MPI_Finalize: communicators that are left over remain the MPI's.
  static void end();

  Leaders(Leaders&& other) noexcept;
  Leaders& operator=(Leaders&& other) = delete;
  ~Leaders();

  [[nodiscard]] int barrier() const;
  [[nodiscard]] int broadcast(std::span<std::byte> buffer, std::uint32_t root) const;
  // `result` counts at the root.
  [[nodiscard]] int reduce(const std::byte* mine, std::byte* result, const NativeReduction& reduction,
                           std::uint32_t root) const;
  [[nodiscard]] int allreduce_in_place(std::byte* vector, const NativeReduction& reduction) const;
  // `sorted` has `each` bytes for every rank, sorted by node. Each node gives its own ranks' part.
  [[nodiscard]] int allgather_in_place(std::byte* sorted, std::uint64_t each, const NodesMap& map) const;
  // `all` has `each` bytes for every node. Each gives its own.
  [[nodiscard]] int allgather_of_nodes_in_place(std::byte* all, std::uint64_t each) const;
  // `sorted` counts at the root; `mine` is the node's part.
  [[nodiscard]] int gather(std::span<const std::byte> mine, std::byte* sorted, std::uint64_t each, const NodesMap& map,
                           std::uint32_t root) const;
  [[nodiscard]] int scatter(const std::byte* sorted, std::span<std::byte> mine, std::uint64_t each, const NodesMap& map,
                            std::uint32_t root) const;
  // `each` bytes for every rank, sorted by node, in both.
  [[nodiscard]] int alltoall(const std::byte* from, std::byte* into, std::uint64_t each, const NodesMap& map) const;

 private:
  explicit Leaders(MPI_Comm comm) : comm_(comm) {}

  MPI_Comm comm_;
};

}  // namespace outrigger::mpi
