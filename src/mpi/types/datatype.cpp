#include "mpi/types/datatype.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

bool is_predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER || combiner == kCombinerValueIndex;
}

// How a type was made. A type made with large counts may be asked with large counts only: the other question is an
// error there.
struct Envelope {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = 0;
  bool large_counts = false;  // its contents are not looked at: not known to be dense

  explicit Envelope(MPI_Datatype type) {
#if OUTRIGGER_MPI4
    if (real().Type_get_envelope_c != nullptr) {
      ask_with_large_counts(type);
      return;
    }
#endif
    real().Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  }

 private:
#if OUTRIGGER_MPI4
  void ask_with_large_counts(MPI_Datatype type) {
    MPI_Count numbers = 0;
    MPI_Count displacements = 0;
    MPI_Count counts = 0;
    MPI_Count parts = 0;
    real().Type_get_envelope_c(type, &numbers, &displacements, &counts, &parts, &combiner);
    integers = static_cast<int>(numbers);
    addresses = static_cast<int>(displacements);
    types = static_cast<int>(parts);
    large_counts = counts != 0;
  }
#endif
};

// Sizes and extents as MPI tells them.
TypeShape measure(MPI_Datatype type) {
  TypeShape shape;
  MPI_Count size = 0;
  MPI_Aint bound = 0;
  MPI_Aint extent = 0;
  real().Type_size_x(type, &size);
  real().Type_get_extent(type, &bound, &extent);
  shape.size = static_cast<std::int64_t>(size);
  shape.extent = static_cast<std::int64_t>(extent);
  MPI_Aint true_bound = 0;
  MPI_Aint true_extent = 0;
  real().Type_get_true_extent(type, &true_bound, &true_extent);
  shape.first = static_cast<std::int64_t>(true_bound);
  shape.dense = shape.size == 0 || static_cast<std::int64_t>(true_extent) == shape.size;
  return shape;
}

// A run of bytes under construction: pieces are appended in typemap order, each must begin where the last one ended.
class Run {
 public:
  // `count` elements of `shape`, the first at `displacement`. False: the type is not dense; stop.
  bool append(const TypeShape& shape, std::int64_t displacement, std::int64_t count = 1) {
    if (shape.size == 0 || count <= 0) return true;
    if (!shape.dense_for(count)) return false;
    const std::int64_t begin = displacement + shape.first;
    if (bytes_ == 0) {
      first_ = begin;
    } else if (begin != first_ + bytes_) {
      return false;
    }
    bytes_ += shape.size * count;
    return true;
  }

  [[nodiscard]] TypeShape shape(std::int64_t extent) const {
    TypeShape shape;
    shape.size = bytes_;
    shape.first = first_;
    shape.extent = extent;
    shape.dense = true;
    return shape;
  }

 private:
  std::int64_t first_ = 0;
  std::int64_t bytes_ = 0;
};

class Contents {
 public:
  Contents(MPI_Datatype type, int integers, int addresses, int types)
      : integers_(static_cast<std::size_t>(integers)),
        addresses_(static_cast<std::size_t>(addresses)),
        types_(static_cast<std::size_t>(types)) {
    real().Type_get_contents(type, integers, addresses, types, integers_.data(), addresses_.data(), types_.data());
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype& type : types_) {
      if (!is_predefined(Envelope(type).combiner)) real().Type_free(&type);
    }
  }

  [[nodiscard]] std::size_t integers() const { return integers_.size(); }
  [[nodiscard]] std::int64_t integer(std::size_t i) const { return integers_[i]; }
  [[nodiscard]] std::int64_t address(std::size_t i) const { return static_cast<std::int64_t>(addresses_[i]); }
  [[nodiscard]] MPI_Datatype type(std::size_t i) const { return types_[i]; }

 private:
  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Datatype> types_;
};

bool append_regular(Run& run, const TypeShape& child, std::int64_t count, std::int64_t length, std::int64_t stride) {
  if (stride == length * child.extent) return run.append(child, 0, count * length);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!run.append(child, i * stride, length)) return false;
  }
  return true;
}

// One dense piece only when the fastest dimensions are whole, at most one is cut, and the slower ones have one index.
bool append_subarray(Run& run, const TypeShape& child, const Contents& contents) {
  const auto dimensions = static_cast<std::size_t>(contents.integer(0));
  const bool fortran = contents.integer(3 * dimensions + 1) == MPI_ORDER_FORTRAN;
  std::int64_t elements = 1;
  std::int64_t stride = 1;
  std::int64_t start = 0;
  bool cut = false;
  for (std::size_t step = 0; step < dimensions; ++step) {  // fastest dimension first
    const std::size_t dimension = fortran ? step : dimensions - 1 - step;
    const std::int64_t size = contents.integer(1 + dimension);
    const std::int64_t subsize = contents.integer(1 + dimensions + dimension);
    if (cut && subsize != 1) return false;
    cut = cut || subsize != size;
    start += contents.integer(1 + 2 * dimensions + dimension) * stride;
    stride *= size;
    elements *= subsize;
  }
  return run.append(child, start * child.extent, elements);
}

bool append_indexed(Run& run, const TypeShape& child, const Contents& contents, int combiner) {
  const auto count = static_cast<std::size_t>(contents.integer(0));
  for (std::size_t i = 0; i < count; ++i) {
    bool dense = false;
    switch (combiner) {
      case MPI_COMBINER_INDEXED:
        dense = run.append(child, contents.integer(1 + count + i) * child.extent, contents.integer(1 + i));
        break;
      case MPI_COMBINER_HINDEXED: dense = run.append(child, contents.address(i), contents.integer(1 + i)); break;
      case MPI_COMBINER_INDEXED_BLOCK:
        dense = run.append(child, contents.integer(2 + i) * child.extent, contents.integer(1));
        break;
      default: dense = run.append(child, contents.address(i), contents.integer(1)); break;  // HINDEXED_BLOCK
    }
    if (!dense) return false;
  }
  return true;
}

// Looks at a type and at all that it is made of. Types that name another type twice, level by level, would take 2^depth
// looks. MPICH names a type by one handle, so each is looked at once. Open MPI names a copy each time, so the number of
// looks is limited, and larger types are packed.
class Walk {
 public:
  // Nothing when the type is not dense or is made in a way not known here.
  std::optional<TypeShape> dense_shape(MPI_Datatype type) {
    const std::uint64_t key = handle_key(type);
    if (const auto known = shapes_.find(key); known != shapes_.end()) return known->second;
    const std::optional<TypeShape> shape = look_at(type);
    shapes_.emplace(key, shape);
    return shape;
  }

 private:
  static constexpr std::uint32_t kMostLooks = 4096;  // at types that are not predefined

  std::optional<TypeShape> look_at(MPI_Datatype type) {
    const Envelope envelope(type);
    if (is_predefined(envelope.combiner)) {
      const TypeShape shape = measure(type);
      return shape.dense ? std::optional(shape) : std::nullopt;
    }
    if (envelope.large_counts || envelope.types == 0 || looks_++ == kMostLooks) return std::nullopt;
    const Contents& contents = contents_.emplace_back(type, envelope.integers, envelope.addresses, envelope.types);
    Run run;
    if (!append_derived(run, envelope.combiner, contents)) return std::nullopt;
    return run.shape(measure(type).extent);
  }

  bool append_struct(Run& run, const Contents& contents) {
    const auto count = static_cast<std::size_t>(contents.integer(0));
    for (std::size_t i = 0; i < count; ++i) {
      const std::optional<TypeShape> child = dense_shape(contents.type(i));
      if (!child || !run.append(*child, contents.address(i), contents.integer(1 + i))) return false;
    }
    return true;
  }

  bool append_derived(Run& run, int combiner, const Contents& contents) {
    if (combiner == MPI_COMBINER_STRUCT) return append_struct(run, contents);
    const std::optional<TypeShape> child = dense_shape(contents.type(0));
    if (!child) return false;
    const std::int64_t count = contents.integers() == 0 ? 1 : contents.integer(0);
    switch (combiner) {
      case MPI_COMBINER_DUP:
      case MPI_COMBINER_RESIZED: return run.append(*child, 0);
      case MPI_COMBINER_CONTIGUOUS: return run.append(*child, 0, count);
      case MPI_COMBINER_VECTOR:
        return append_regular(run, *child, count, contents.integer(1), contents.integer(2) * child->extent);
      case MPI_COMBINER_HVECTOR: return append_regular(run, *child, count, contents.integer(1), contents.address(0));
      case MPI_COMBINER_INDEXED:
      case MPI_COMBINER_HINDEXED:
      case MPI_COMBINER_INDEXED_BLOCK:
      case MPI_COMBINER_HINDEXED_BLOCK: return append_indexed(run, *child, contents, combiner);
      case MPI_COMBINER_SUBARRAY: return append_subarray(run, *child, contents);
      default: return false;
    }
  }

  std::unordered_map<std::uint64_t, std::optional<TypeShape>> shapes_;  // by handle
  std::deque<Contents> contents_;  // references: no handle means another type meanwhile
  std::uint32_t looks_ = 0;
};

// MPI has no question for this; packing nothing is refused for a type that is not committed.
bool is_committed(const Job& job, MPI_Datatype type) {
  char nothing = 0;
  int position = 0;
  return real().Pack(&nothing, 0, type, &nothing, 0, &position, job.packing_comm) == MPI_SUCCESS;
}

TypeShape analyse(const Job& job, MPI_Datatype type) {
  TypeShape shape = uncommitted_shape_of(type);
  shape.committed = shape.predefined || is_committed(job, type);
  return shape;
}

// The first to come keeps the attribute: another thread may be reading what it has set.
void remember(const Job& job, MPI_Datatype type, const TypeShape& shape) {
  static constinit std::mutex mutex;
  const std::scoped_lock lock(mutex);
  void* value = nullptr;
  int found = 0;
  real().Type_get_attr(type, job.type_keyval, static_cast<void*>(&value), &found);
  if (found == 0) real().Type_set_attr(type, job.type_keyval, new TypeShape(shape));
}

int delete_type_attribute(MPI_Datatype /*type*/, int /*keyval*/, void* value, void* /*extra*/) {
  delete static_cast<TypeShape*>(value);
  return MPI_SUCCESS;
}

int copy_type_attribute(MPI_Datatype /*type*/, int /*keyval*/, void* /*extra*/, void* /*value*/, void* /*copy*/,
                        int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

}  // namespace

TypeShape uncommitted_shape_of(MPI_Datatype type) {
  TypeShape shape = measure(type);
  shape.predefined = is_predefined(Envelope(type).combiner);
  if (!shape.dense || shape.predefined) return shape;  // a hole somewhere: no order of the pieces can mend it
  const std::optional<TypeShape> walked = Walk().dense_shape(type);
  shape.dense = walked && (shape.size == 0 || (walked->size == shape.size && walked->first == shape.first));
  return shape;
}

bool register_datatypes(Job& job) {
  return real().Type_create_keyval(&copy_type_attribute, &delete_type_attribute, &job.type_keyval, nullptr) ==
         MPI_SUCCESS;
}

void forget_datatypes(Job& job) {
  real().Type_free_keyval(&job.type_keyval);
}

constinit std::array<std::atomic<const detail::Predefined*>, 1U << detail::kPredefinedEntriesLog2>
    detail::predefined_types{};

TypeShape detail::find_shape(const Job& job, MPI_Datatype type) {
  void* value = nullptr;
  int found = 0;
  const bool derived = !is_predefined(Envelope(type).combiner);
  if (derived) real().Type_get_attr(type, job.type_keyval, static_cast<void*>(&value), &found);
  if (found != 0) return *static_cast<const TypeShape*>(value);
  const TypeShape shape = analyse(job, type);
  if (!derived) {
    auto* fresh = new Predefined{handle_key(type), shape};
    const Predefined* empty = nullptr;
    if (!predefined_entry(type).compare_exchange_strong(empty, fresh, std::memory_order_acq_rel)) delete fresh;
  } else if (shape.committed) {
    remember(job, type, shape);
  }
  return shape;
}

}  // namespace outrigger::mpi
