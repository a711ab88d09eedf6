// Learns the trees by which this MPI reduces (src/intranode/sums), and compares pseudo-random vectors, reduced by the
// MPI and by the tree. Arguments: vectors in all, the most elements of a vector.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "intranode/sums/order_learner.hpp"

namespace {

using namespace outrigger;
using namespace outrigger::intranode;

enum class Form : std::uint8_t { allreduce, reduce, reduce_scatter_block, scan, exscan };
constexpr std::array kForms{"allreduce", "reduce", "reduce_scatter_block", "scan", "exscan"};

struct Totals {
  std::size_t learned = 0;
  std::size_t refused = 0;
  std::size_t vectors = 0;
  std::size_t differing = 0;
  // Elements of minima and maxima.
  std::size_t sure = 0;
  std::size_t asked = 0;
};

int rank = 0;
int ranks = 0;

MPI_Datatype type_of(const Reduction& reduction) {
  switch (reduction.type) {
    case ElementType::float32: return MPI_FLOAT;
    case ElementType::float64: return MPI_DOUBLE;
    case ElementType::complex_double: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_LONG_DOUBLE;
  }
}

MPI_Op operation_of(const Reduction& reduction) {
  switch (reduction.operation) {
    case ReduceOperation::sum: return MPI_SUM;
    case ReduceOperation::prod: return MPI_PROD;
    case ReduceOperation::min: return MPI_MIN;
    default: return MPI_MAX;
  }
}

int root() {
  return ranks - 1;
}

Learning learning_of(Form form, const Reduction& reduction, std::size_t elements) {
  Learning learning =
      Learning::allreduce(static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks), reduction, elements);
  switch (form) {
    case Form::allreduce: break;
    case Form::reduce: learning.returned = rank == root() ? elements : 0; break;
    case Form::reduce_scatter_block:
      learning.elements = elements * learning.members;
      learning.first = elements * learning.member;
      learning.whole = false;
      break;
    case Form::scan: learning.summed = learning.member + 1; break;
    case Form::exscan: learning.summed = learning.member; break;
  }
  return learning;
}

NativeReduction native_of(Form form, const Reduction& reduction, std::size_t elements) {
  const int count = static_cast<int>(elements);
  const MPI_Datatype type = type_of(reduction);
  const MPI_Op operation = operation_of(reduction);
  return [=](const std::byte* contribution, std::byte* result) {
    switch (form) {
      case Form::allreduce: return MPI_Allreduce(contribution, result, count, type, operation, MPI_COMM_WORLD) == 0;
      case Form::reduce: return MPI_Reduce(contribution, result, count, type, operation, root(), MPI_COMM_WORLD) == 0;
      case Form::reduce_scatter_block:
        return MPI_Reduce_scatter_block(contribution, result, count, type, operation, MPI_COMM_WORLD) == 0;
      case Form::scan: return MPI_Scan(contribution, result, count, type, operation, MPI_COMM_WORLD) == 0;
      default: return MPI_Exscan(contribution, result, count, type, operation, MPI_COMM_WORLD) == 0;
    }
  };
}

// The worst refusal of all ranks.
SumRefusal agreed(const Learned& learned) {
  int refusal = static_cast<int>(learned.refusal);
  MPI_Allreduce(MPI_IN_PLACE, &refusal, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return static_cast<SumRefusal>(refusal);
}

bool same_everywhere(const SumOrder& order) {
  std::array<char, 10'000> first{};
  const std::string text = order.text().substr(0, first.size() - 1);
  std::copy(text.begin(), text.end(), first.begin());
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  int same = text == first.data() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return same != 0;
}

// The time of a native call.
double seconds_of(const NativeReduction& native, const Learning& learning) {
  constexpr int kCalls = 20;
  const std::vector<std::byte> contribution(learning.elements * learning.reduction.element_bytes());
  std::vector<std::byte> result(contribution.size());
  native(contribution.data(), result.data());
  const double begin = MPI_Wtime();
  for (int call = 0; call < kCalls; ++call) native(contribution.data(), result.data());
  return (MPI_Wtime() - begin) / kCalls;
}

void try_one(Form form, const Reduction& reduction, std::size_t elements, std::size_t vectors, Totals& totals) {
  const Learning learning = learning_of(form, reduction, elements);
  const NativeReduction native = native_of(form, reduction, elements);
  const double native_seconds = seconds_of(native, learning);
  const double begin = MPI_Wtime();
  const Learned learned = learn(native, learning);
  const double seconds = MPI_Wtime() - begin;
  SumRefusal refusal = agreed(learned);
  const std::size_t calls = learning_calls(learning);
  std::string said = std::string(name_of(refusal));
  if (refusal == SumRefusal::none) {
    ++totals.learned;
    if (form == Form::allreduce && !same_everywhere(*learned.order)) refusal = SumRefusal::varies;
    const SumOrder& order = *learned.order;
    int differ =
        verify(native, learning, order, 1000, vectors) == SumRefusal::none && refusal == SumRefusal::none ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    totals.vectors += vectors;
    totals.differing += static_cast<std::size_t>(differ);
    said = order.text() + (differ != 0 ? " DIFFERS" : "");
  } else {
    ++totals.refused;
  }
  if (rank == root()) {
    std::printf("%s %s %s %zu: %s; %zu calls, %.3f ms, as %.0f native ones\n", kForms[static_cast<std::size_t>(form)],
                name_of(reduction.operation).data(), name_of(reduction.type).data(), elements, said.c_str(), calls,
                1e3 * seconds, seconds / native_seconds);
  }
}

// Numbers with ties, NaNs and zeros with signs, which all ranks know. Where evaluate() is sure, it has native's bits.
template <class T>
void compare_extrema(const Reduction& reduction, std::size_t elements, std::size_t vectors, Totals& totals) {
  std::mt19937_64 random(elements);
  const NativeReduction native = native_of(Form::allreduce, reduction, elements);
  std::vector<std::vector<T>> contributions(static_cast<std::size_t>(ranks), std::vector<T>(elements));
  std::vector<T> natives(elements);
  std::vector<T> ours(elements);
  for (std::size_t vector = 0; vector < vectors; ++vector) {
    std::vector<const std::byte*> from;
    for (auto& each : contributions) {
      for (T& value : each) {
        const std::uint64_t choice = random() % (vector % 2 == 0 ? 8 : 500);
        const T sign = random() % 2 == 0 ? T{1} : T{-1};
        value = sign * static_cast<T>(choice == 0   ? std::nan("")
                                      : choice == 1 ? 0
                                                    : static_cast<double>(random() % 99));
      }
      from.push_back(reinterpret_cast<const std::byte*>(each.data()));
    }
    native(from[static_cast<std::size_t>(rank)], reinterpret_cast<std::byte*>(natives.data()));
    const SumOrder order(SumTree::linear(from.size()));
    for (std::size_t t = 0; t < elements; ++t) {
      std::vector<const std::byte*> element;
      for (const std::byte* each : from) element.push_back(each + t * sizeof(T));
      if (evaluate(order, reduction, element, reinterpret_cast<std::byte*>(&ours[t]), 0, 1) == Bits::ask_native) {
        ++totals.asked;
      } else {
        ++totals.sure;
        if (std::memcmp(&ours[t], &natives[t], sizeof(T)) != 0) ++totals.differing;
      }
    }
  }
  totals.vectors += vectors;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::size_t wanted = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10'000;
  const std::size_t most = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 65'536;
  constexpr std::array<std::size_t, 9> kCounts{1, 2, 3, 8, 63, 500, 2048, 10'000, 65'536};
  constexpr std::array kTypes{ElementType::float64, ElementType::float32};
  constexpr std::array kOperations{ReduceOperation::sum, ReduceOperation::prod};
  Totals totals;
  for (const std::size_t count : kCounts) {
    if (count > most) continue;
    for (const ElementType type : kTypes) {
      for (const ReduceOperation operation : kOperations)
        try_one(Form::allreduce, {operation, type}, count, count > 1000 ? 10 : wanted / 60, totals);
    }
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{20'000}}) {
    if (count > most) continue;
    for (const Form form : {Form::reduce, Form::reduce_scatter_block, Form::scan, Form::exscan})
      try_one(form, {ReduceOperation::sum, ElementType::float64}, count, 10, totals);
  }
  try_one(Form::allreduce, {ReduceOperation::sum, ElementType::complex_double}, 5, 10, totals);
  try_one(Form::allreduce, {ReduceOperation::sum, ElementType::long_double}, 5, 10, totals);
  for (const std::size_t count : {std::size_t{1}, std::size_t{37}}) {
    for (const ReduceOperation operation : {ReduceOperation::min, ReduceOperation::max}) {
      compare_extrema<float>({operation, ElementType::float32}, count, 100, totals);
      compare_extrema<double>({operation, ElementType::float64}, count, 100, totals);
    }
  }
  // The rest of what was asked for, in short vectors.
  if (totals.vectors < wanted)
    try_one(Form::allreduce, {ReduceOperation::sum, ElementType::float64}, 17, wanted - totals.vectors, totals);
  if (rank == root()) {
    std::printf("extrema: sure of %zu elements, not of %zu\n", totals.sure, totals.asked);
    std::printf("learned %zu, refused %zu, compared %zu vectors, differing %zu\n", totals.learned, totals.refused,
                totals.vectors, totals.differing);
  }
  MPI_Finalize();
  return 0;
}
