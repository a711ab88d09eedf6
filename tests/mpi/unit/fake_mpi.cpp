#include "fake_mpi.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mpi/types/datatype.hpp"

namespace outrigger::mpi::test {
namespace {

FakeMpi* current = nullptr;
constexpr int kSuccess = MPI_SUCCESS;  // an enumerator in the standard ABI

std::uint64_t next_number() {
  static std::uint64_t last = 0;
  return ++last;
}

std::int64_t size_of(const FakeType& type) {
  std::int64_t bytes = 0;
  for (const Piece& piece : type.typemap) bytes += piece.bytes;
  return bytes;
}

// Copies between the elements and contiguous bytes, piece by piece.
template <class Copy>
int each_piece(MPI_Datatype type, int count, int* position, const Copy& copy) {
  const FakeType& known = current->at(type);
  if (!known.committed) return MPI_ERR_TYPE;
  for (int i = 0; i < count; ++i) {
    for (const Piece& piece : known.typemap) {
      copy(i * known.extent + piece.offset, *position, static_cast<std::size_t>(piece.bytes));
      *position += static_cast<int>(piece.bytes);
    }
  }
  return kSuccess;
}

}  // namespace

FakeMpi::FakeMpi() {
  current = this;
  fill_type_functions();
  fill_topology_functions();
  static_cast<void>(register_datatypes(job));
}

FakeMpi::~FakeMpi() {
  for (const auto& [key, type] : types_) {
    if (type->attribute != nullptr) delete_attribute_({}, job.type_keyval, type->attribute, nullptr);
  }
  forget_datatypes(job);
  detail::table = Real{};
  current = nullptr;
}

void FakeMpi::fill_type_functions() {
  Real& table = detail::table;
  table.Type_create_keyval = [](MPI_Type_copy_attr_function*, MPI_Type_delete_attr_function* remove, int* keyval,
                                void*) {
    current->delete_attribute_ = remove;
    *keyval = 1;
    return kSuccess;
  };
  table.Type_free_keyval = [](int* keyval) {
    *keyval = MPI_KEYVAL_INVALID;
    return kSuccess;
  };
  table.Type_get_attr = [](MPI_Datatype type, int, void* value, int* found) {
    void* attribute = current->at(type).attribute;
    *found = attribute != nullptr ? 1 : 0;
    if (attribute != nullptr) *static_cast<void**>(value) = attribute;
    return kSuccess;
  };
  table.Type_set_attr = [](MPI_Datatype type, int, void* value) {
    current->at(type).attribute = value;
    return kSuccess;
  };
  table.Type_get_envelope = [](MPI_Datatype type, int* integers, int* addresses, int* types, int* combiner) {
    const Contents& contents = current->at(type).contents;
    *integers = static_cast<int>(contents.integers.size());
    *addresses = static_cast<int>(contents.addresses.size());
    *types = static_cast<int>(contents.types.size());
    *combiner = contents.combiner;
    return kSuccess;
  };
#if OUTRIGGER_MPI4
  table.Type_get_envelope_c = [](MPI_Datatype type, MPI_Count* integers, MPI_Count* addresses, MPI_Count* counts,
                                 MPI_Count* types, int* combiner) {
    const Contents& contents = current->at(type).contents;
    *counts = current->at(type).large_counts ? static_cast<MPI_Count>(contents.integers.size()) : 0;
    *integers = static_cast<MPI_Count>(contents.integers.size()) - *counts;
    *addresses = static_cast<MPI_Count>(contents.addresses.size());
    *types = static_cast<MPI_Count>(contents.types.size());
    *combiner = contents.combiner;
    return kSuccess;
  };
#endif
  table.Type_get_contents = [](MPI_Datatype type, int, int, int, int* integers, MPI_Aint* addresses,
                               MPI_Datatype* types) {
    ++current->at(type).looks;
    const Contents contents = current->at(type).contents;
    std::ranges::copy(contents.integers, integers);
    std::ranges::copy(contents.addresses, addresses);
    for (const MPI_Datatype& part : contents.types) *types++ = current->copy(part);
    return kSuccess;
  };
  table.Type_size_x = [](MPI_Datatype type, MPI_Count* size) {
    *size = size_of(current->at(type));
    return kSuccess;
  };
  table.Type_get_extent = [](MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
    *lower = static_cast<MPI_Aint>(current->at(type).lower);
    *extent = static_cast<MPI_Aint>(current->at(type).extent);
    return kSuccess;
  };
  table.Type_get_true_extent = [](MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
    std::int64_t first = 0;
    std::int64_t end = 0;
    for (bool any = false; const Piece& piece : current->at(type).typemap) {
      first = any ? std::min(first, piece.offset) : piece.offset;
      end = any ? std::max(end, piece.offset + piece.bytes) : piece.offset + piece.bytes;
      any = true;
    }
    *lower = static_cast<MPI_Aint>(first);
    *extent = static_cast<MPI_Aint>(end - first);
    return kSuccess;
  };
  table.Type_contiguous = [](int count, MPI_Datatype type, MPI_Datatype* made) {
    *made = current->contiguous(count, type);
    current->at(*made).committed = false;
    return kSuccess;
  };
  table.Type_commit = [](MPI_Datatype* type) {
    current->at(*type).committed = true;
    return kSuccess;
  };
  table.Type_free = [](MPI_Datatype* type) {
    current->free(std::exchange(*type, {}));
    return kSuccess;
  };
  table.Pack = [](const void* elements, int count, MPI_Datatype type, void* row, int, int* position, MPI_Comm) {
    return each_piece(type, count, position, [&](std::int64_t offset, int at, std::size_t bytes) {
      std::memcpy(static_cast<char*>(row) + at, static_cast<const char*>(elements) + offset, bytes);
    });
  };
  table.Unpack = [](const void* row, int, int* position, void* elements, int count, MPI_Datatype type, MPI_Comm) {
    return each_piece(type, count, position, [&](std::int64_t offset, int at, std::size_t bytes) {
      std::memcpy(static_cast<char*>(elements) + offset, static_cast<const char*>(row) + at, bytes);
    });
  };
}

void FakeMpi::fill_topology_functions() {
  Real& table = detail::table;
  table.Topo_test = [](MPI_Comm comm, int* topology) {
    ++current->topology_questions_;
    *topology = current->comms_.at(handle_key(comm)).topology;
    return kSuccess;
  };
  table.Comm_rank = [](MPI_Comm, int* rank) {
    *rank = 0;
    return kSuccess;
  };
  table.Cartdim_get = [](MPI_Comm comm, int* dimensions) {
    *dimensions = static_cast<int>(current->comms_.at(handle_key(comm)).sources.size() / 2);
    return kSuccess;
  };
  table.Cart_shift = [](MPI_Comm comm, int dimension, int, int* below, int* above) {
    const auto place = static_cast<std::size_t>(2 * dimension);
    *below = current->comms_.at(handle_key(comm)).sources[place];
    *above = current->comms_.at(handle_key(comm)).sources[place + 1];
    return kSuccess;
  };
  table.Graph_neighbors_count = [](MPI_Comm comm, int, int* count) {
    *count = static_cast<int>(current->comms_.at(handle_key(comm)).sources.size());
    return kSuccess;
  };
  table.Graph_neighbors = [](MPI_Comm comm, int, int, int* neighbors) {
    std::ranges::copy(current->comms_.at(handle_key(comm)).sources, neighbors);
    return kSuccess;
  };
  table.Dist_graph_neighbors_count = [](MPI_Comm comm, int* sources, int* destinations, int* weighted) {
    const FakeComm& known = current->comms_.at(handle_key(comm));
    *sources = static_cast<int>(known.sources.size());
    *destinations = static_cast<int>(known.destinations.size());
    *weighted = 1;
    return kSuccess;
  };
  table.Dist_graph_neighbors = [](MPI_Comm comm, int, int* sources, int*, int, int* destinations, int*) {
    const FakeComm& known = current->comms_.at(handle_key(comm));
    std::ranges::copy(known.sources, sources);
    std::ranges::copy(known.destinations, destinations);
    return kSuccess;
  };
}

// ---------------------------------------------------------------- datatypes

MPI_Datatype FakeMpi::predefined(std::int64_t bytes) {
  const auto made = handle<MPI_Datatype>(next_number());
  auto type = std::make_unique<FakeType>();
  type->typemap = {Piece{0, bytes}};
  type->extent = bytes;
  type->committed = true;
  types_.emplace(handle_key(made), std::move(type));
  return made;
}

MPI_Datatype FakeMpi::make(Contents contents, const std::vector<Placement>& placements) {
  const auto made = handle<MPI_Datatype>(next_number());
  auto type = std::make_unique<FakeType>();
  std::int64_t upper = 0;
  bool any = false;
  for (const Placement& placement : placements) {
    const FakeType& part = at(placement.type);
    for (int i = 0; i < placement.count; ++i) {
      const std::int64_t offset = placement.offset + i * part.extent;
      for (const Piece& piece : part.typemap) type->typemap.push_back(Piece{offset + piece.offset, piece.bytes});
      const std::int64_t lower = offset + part.lower;
      type->lower = any ? std::min(type->lower, lower) : lower;
      upper = any ? std::max(upper, lower + part.extent) : lower + part.extent;
      any = true;
    }
  }
  type->extent = upper - type->lower;
  type->committed = true;
  type->contents = std::move(contents);
  types_.emplace(handle_key(made), std::move(type));
  return made;
}

MPI_Datatype FakeMpi::dup(MPI_Datatype type) {
  return make({MPI_COMBINER_DUP, {}, {}, {type}}, {{type}});
}

MPI_Datatype FakeMpi::resized(std::int64_t lower, std::int64_t extent, MPI_Datatype type) {
  const std::vector<MPI_Aint> bounds{static_cast<MPI_Aint>(lower), static_cast<MPI_Aint>(extent)};
  const MPI_Datatype made = make({MPI_COMBINER_RESIZED, {}, bounds, {type}}, {{type}});
  at(made).lower = lower;
  at(made).extent = extent;
  return made;
}

MPI_Datatype FakeMpi::contiguous(int count, MPI_Datatype type) {
  return make({MPI_COMBINER_CONTIGUOUS, {count}, {}, {type}}, {{type, 0, count}});
}

MPI_Datatype FakeMpi::vector(int count, int length, int stride, MPI_Datatype type) {
  std::vector<Placement> placements;
  for (int i = 0; i < count; ++i) placements.push_back({type, i * stride * at(type).extent, length});
  return make({MPI_COMBINER_VECTOR, {count, length, stride}, {}, {type}}, placements);
}

MPI_Datatype FakeMpi::hvector(int count, int length, MPI_Aint stride, MPI_Datatype type) {
  std::vector<Placement> placements;
  for (int i = 0; i < count; ++i) placements.push_back({type, i * stride, length});
  return make({MPI_COMBINER_HVECTOR, {count, length}, {stride}, {type}}, placements);
}

MPI_Datatype FakeMpi::indexed(const std::vector<int>& lengths, const std::vector<int>& offsets, MPI_Datatype type) {
  Contents contents{MPI_COMBINER_INDEXED, {static_cast<int>(lengths.size())}, {}, {type}};
  contents.integers.insert(contents.integers.end(), lengths.begin(), lengths.end());
  contents.integers.insert(contents.integers.end(), offsets.begin(), offsets.end());
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    placements.push_back({type, offsets[i] * at(type).extent, lengths[i]});
  return make(std::move(contents), placements);
}

MPI_Datatype FakeMpi::hindexed(const std::vector<int>& lengths, const std::vector<MPI_Aint>& offsets,
                               MPI_Datatype type) {
  Contents contents{MPI_COMBINER_HINDEXED, {static_cast<int>(lengths.size())}, offsets, {type}};
  contents.integers.insert(contents.integers.end(), lengths.begin(), lengths.end());
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < lengths.size(); ++i) placements.push_back({type, offsets[i], lengths[i]});
  return make(std::move(contents), placements);
}

MPI_Datatype FakeMpi::indexed_block(int length, const std::vector<int>& offsets, MPI_Datatype type) {
  Contents contents{MPI_COMBINER_INDEXED_BLOCK, {static_cast<int>(offsets.size()), length}, {}, {type}};
  contents.integers.insert(contents.integers.end(), offsets.begin(), offsets.end());
  std::vector<Placement> placements;
  for (const int offset : offsets) placements.push_back({type, offset * at(type).extent, length});
  return make(std::move(contents), placements);
}

MPI_Datatype FakeMpi::hindexed_block(int length, const std::vector<MPI_Aint>& offsets, MPI_Datatype type) {
  std::vector<Placement> placements;
  for (const MPI_Aint offset : offsets) placements.push_back({type, offset, length});
  return make({MPI_COMBINER_HINDEXED_BLOCK, {static_cast<int>(offsets.size()), length}, offsets, {type}}, placements);
}

MPI_Datatype FakeMpi::structure(const std::vector<int>& lengths, const std::vector<MPI_Aint>& offsets,
                                const std::vector<MPI_Datatype>& types) {
  Contents contents{MPI_COMBINER_STRUCT, {static_cast<int>(lengths.size())}, offsets, types};
  contents.integers.insert(contents.integers.end(), lengths.begin(), lengths.end());
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < lengths.size(); ++i) placements.push_back({types[i], offsets[i], lengths[i]});
  return make(std::move(contents), placements);
}

MPI_Datatype FakeMpi::subarray(std::array<int, 2> sizes, std::array<int, 2> parts, std::array<int, 2> starts, int order,
                               MPI_Datatype type) {
  const bool fortran = order == MPI_ORDER_FORTRAN;
  const std::size_t slow = fortran ? 1 : 0;
  const std::size_t fast = 1 - slow;
  std::vector<Placement> placements;
  for (int row = starts[slow]; row < starts[slow] + parts[slow]; ++row) {
    placements.push_back({type, (row * sizes[fast] + starts[fast]) * at(type).extent, parts[fast]});
  }
  const std::int64_t extent = at(type).extent * sizes[0] * sizes[1];
  const std::vector<int> integers{2, sizes[0], sizes[1], parts[0], parts[1], starts[0], starts[1], order};
  const MPI_Datatype made = make({MPI_COMBINER_SUBARRAY, integers, {}, {type}}, placements);
  at(made).lower = 0;
  at(made).extent = extent;
  return made;
}

void FakeMpi::free(MPI_Datatype type) {
  FakeType& known = at(type);
  if (--known.references != 0) return;
  if (known.attribute != nullptr) delete_attribute_(type, job.type_keyval, known.attribute, nullptr);
  types_.erase(handle_key(type));
}

MPI_Datatype FakeMpi::copy(MPI_Datatype type) {
  if (at(type).contents.combiner == MPI_COMBINER_NAMED) return type;
  if (!gives_copies_) {
    ++at(type).references;
    return type;
  }
  const auto made = handle<MPI_Datatype>(next_number());
  auto copied = std::make_unique<FakeType>(at(type));
  copied->references = 1;
  copied->attribute = nullptr;
  types_.emplace(handle_key(made), std::move(copied));
  return made;
}

// ---------------------------------------------------------------- communicators

MPI_Comm FakeMpi::make(FakeComm comm) {
  const auto made = handle<MPI_Comm>(next_number());
  comms_.emplace(handle_key(made), std::move(comm));
  return made;
}

MPI_Comm FakeMpi::without_topology() {
  return make(FakeComm{});
}

MPI_Comm FakeMpi::grid(const std::vector<std::array<int, 2>>& below_and_above) {
  FakeComm comm{MPI_CART, {}, {}};
  for (const std::array<int, 2>& dimension : below_and_above) {
    comm.sources.insert(comm.sources.end(), dimension.begin(), dimension.end());
  }
  return make(std::move(comm));
}

MPI_Comm FakeMpi::graph(const std::vector<int>& neighbors) {
  return make(FakeComm{MPI_GRAPH, neighbors, {}});
}

MPI_Comm FakeMpi::distributed_graph(const std::vector<int>& sources, const std::vector<int>& destinations) {
  return make(FakeComm{MPI_DIST_GRAPH, sources, destinations});
}

}  // namespace outrigger::mpi::test
