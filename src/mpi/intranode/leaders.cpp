#include "mpi/intranode/leaders.hpp"

#include <atomic>
#include <utility>

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constinit std::atomic<bool> leaders_ended = false;

// Parts of what is sorted by node, as v-forms want them.
struct Parts {
  std::vector<int> bytes;
  std::vector<int> offsets;

  Parts(std::uint64_t each, const NodesMap& map) {
    for (std::uint32_t node = 0; node < map.nodes(); ++node) {
      bytes.push_back(static_cast<int>(each * map.size_of(node)));
      offsets.push_back(static_cast<int>(each * map.first_place_of(node)));
    }
  }
};

// The program's handler must not see an error of ours.
class ErrorsReturnMeanwhile {
 public:
  explicit ErrorsReturnMeanwhile(MPI_Comm comm) : comm_(comm) {
    real().Comm_get_errhandler(comm_, &before_);
    real().Comm_set_errhandler(comm_, constants().errors_return);
  }
  ErrorsReturnMeanwhile(const ErrorsReturnMeanwhile&) = delete;
  ErrorsReturnMeanwhile& operator=(const ErrorsReturnMeanwhile&) = delete;
  ~ErrorsReturnMeanwhile() {
    real().Comm_set_errhandler(comm_, before_);
    real().Errhandler_free(&before_);
  }

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_{};
};

}  // namespace

std::optional<Leaders> Leaders::make(MPI_Comm comm, bool leads) {
  const ErrorsReturnMeanwhile errors(comm);
  MPI_Comm made = constants().comm_null;
  if (real().Comm_split(comm, leads ? 0 : MPI_UNDEFINED, 0, &made) != MPI_SUCCESS) return std::nullopt;
  if (made != constants().comm_null) real().Comm_set_errhandler(made, constants().errors_return);
  return Leaders(made);
}

void Leaders::end() {
  leaders_ended.store(true, std::memory_order_relaxed);
}

Leaders::Leaders(Leaders&& other) noexcept : comm_(std::exchange(other.comm_, constants().comm_null)) {}

Leaders::~Leaders() {
  if (comm_ != constants().comm_null && !leaders_ended.load(std::memory_order_relaxed)) real().Comm_free(&comm_);
}

int Leaders::barrier() const {
  return real().Barrier(comm_);
}

int Leaders::broadcast(std::span<std::byte> buffer, std::uint32_t root) const {
  return real().Bcast(buffer.data(), static_cast<int>(buffer.size()), constants().byte, static_cast<int>(root), comm_);
}

int Leaders::reduce(const std::byte* mine, std::byte* result, const NativeReduction& reduction,
                    std::uint32_t root) const {
  return real().Reduce(mine, result, reduction.count, reduction.type, reduction.operation, static_cast<int>(root),
                       comm_);
}

int Leaders::allreduce_in_place(std::byte* vector, const NativeReduction& reduction) const {
  return real().Allreduce(MPI_IN_PLACE, vector, reduction.count, reduction.type, reduction.operation, comm_);
}

int Leaders::allgather_in_place(std::byte* sorted, std::uint64_t each, const NodesMap& map) const {
  const Parts parts(each, map);
  return real().Allgatherv(MPI_IN_PLACE, 0, constants().byte, sorted, parts.bytes.data(), parts.offsets.data(),
                           constants().byte, comm_);
}

int Leaders::allgather_of_nodes_in_place(std::byte* all, std::uint64_t each) const {
  const auto bytes = static_cast<int>(each);
  return real().Allgather(MPI_IN_PLACE, 0, constants().byte, all, bytes, constants().byte, comm_);
}

int Leaders::gather(std::span<const std::byte> mine, std::byte* sorted, std::uint64_t each, const NodesMap& map,
                    std::uint32_t root) const {
  const Parts parts(each, map);
  return real().Gatherv(mine.data(), static_cast<int>(mine.size()), constants().byte, sorted, parts.bytes.data(),
                        parts.offsets.data(), constants().byte, static_cast<int>(root), comm_);
}

int Leaders::scatter(const std::byte* sorted, std::span<std::byte> mine, std::uint64_t each, const NodesMap& map,
                     std::uint32_t root) const {
  const Parts parts(each, map);
  return real().Scatterv(sorted, parts.bytes.data(), parts.offsets.data(), constants().byte, mine.data(),
                         static_cast<int>(mine.size()), constants().byte, static_cast<int>(root), comm_);
}

int Leaders::alltoall(const std::byte* from, std::byte* into, std::uint64_t each, const NodesMap& map) const {
  const Parts parts(each, map);
  return real().Alltoallv(from, parts.bytes.data(), parts.offsets.data(), constants().byte, into, parts.bytes.data(),
                          parts.offsets.data(), constants().byte, comm_);
}

}  // namespace outrigger::mpi
