// An MPI for tests of src/mpi in one process without a libmpi: its functions are in the table of real(). It has
// datatypes with known byte positions, and communicators with a topology.
//
// Handles are numbers from 1 on, never reused: the library remembers predefined types.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "mpi/job/job.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi::test {

// Contiguous bytes of a typemap, in its order.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// Elements of a type within another: `count` of them, the first at `offset`.
struct Placement {
  MPI_Datatype type{};
  std::int64_t offset = 0;
  int count = 1;
};

// Result of MPI_Type_get_contents.
struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> types;
};

struct FakeType {
  Contents contents;
  std::vector<Piece> typemap;
  std::int64_t lower = 0;
  std::int64_t extent = 0;
  bool committed = false;
  int references = 1;
  void* attribute = nullptr;
  bool large_counts = false;  // made by a call with large counts
  int looks = 0;              // calls of MPI_Type_get_contents
};

class FakeMpi {
 public:
  FakeMpi();
  FakeMpi(const FakeMpi&) = delete;
  FakeMpi& operator=(const FakeMpi&) = delete;
  ~FakeMpi();

  template <class Handle>
  [[nodiscard]] static Handle handle(std::uint64_t number) {
    if constexpr (std::is_pointer_v<Handle>) {
      return reinterpret_cast<Handle>(number);
    } else {
      return static_cast<Handle>(number);
    }
  }

  // --- Datatypes, as MPI_Type_X makes them; committed. ---
  MPI_Datatype predefined(std::int64_t bytes);
  MPI_Datatype dup(MPI_Datatype type);
  MPI_Datatype resized(std::int64_t lower, std::int64_t extent, MPI_Datatype type);
  MPI_Datatype contiguous(int count, MPI_Datatype type);
  MPI_Datatype vector(int count, int length, int stride, MPI_Datatype type);
  MPI_Datatype hvector(int count, int length, MPI_Aint stride, MPI_Datatype type);
  MPI_Datatype indexed(const std::vector<int>& lengths, const std::vector<int>& offsets, MPI_Datatype type);
  MPI_Datatype hindexed(const std::vector<int>& lengths, const std::vector<MPI_Aint>& offsets, MPI_Datatype type);
  MPI_Datatype indexed_block(int length, const std::vector<int>& offsets, MPI_Datatype type);
  MPI_Datatype hindexed_block(int length, const std::vector<MPI_Aint>& offsets, MPI_Datatype type);
  MPI_Datatype structure(const std::vector<int>& lengths, const std::vector<MPI_Aint>& offsets,
                         const std::vector<MPI_Datatype>& types);
  // It has two dimensions.
  MPI_Datatype subarray(std::array<int, 2> sizes, std::array<int, 2> parts, std::array<int, 2> starts, int order,
                        MPI_Datatype type);

  [[nodiscard]] FakeType& at(MPI_Datatype type) { return *types_.at(handle_key(type)); }
  [[nodiscard]] std::size_t types() const { return types_.size(); }
  void free(MPI_Datatype type);
  // Returns a new handle each time, as Open MPI does.
  MPI_Datatype copy(MPI_Datatype type);
  void give_copies() { gives_copies_ = true; }

  // --- Communicators. ---
  MPI_Comm without_topology();
  MPI_Comm grid(const std::vector<std::array<int, 2>>& below_and_above);
  MPI_Comm graph(const std::vector<int>& neighbors);
  MPI_Comm distributed_graph(const std::vector<int>& sources, const std::vector<int>& destinations);
  [[nodiscard]] int topology_questions() const { return topology_questions_; }

  Job job;

 private:
  struct FakeComm {
    int topology = MPI_UNDEFINED;
    std::vector<int> sources;
    std::vector<int> destinations;
  };
  void fill_type_functions();
  void fill_topology_functions();
  MPI_Datatype make(Contents contents, const std::vector<Placement>& placements);
  MPI_Comm make(FakeComm comm);

  std::map<std::uint64_t, std::unique_ptr<FakeType>> types_;
  std::map<std::uint64_t, FakeComm> comms_;
  MPI_Type_delete_attr_function* delete_attribute_ = nullptr;
  bool gives_copies_ = false;
  int topology_questions_ = 0;
};

}  // namespace outrigger::mpi::test
