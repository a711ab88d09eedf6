// Reductions of floating-point numbers, by the MPI's own functions and by those that the program is linked with, must
// have the same bits. Each kind of call comes several times, with other numbers: the first ones may learn how the MPI
// adds.
//
//     native_sums [--seed N] [--kinds N] [--calls N] [--elements N]
//     native_sums --lengths N ...  N kinds of allreduce, of sums of 1, 2 and more doubles
//     native_sums --edges 1        a block without elements beside NaNs; exclusive scans where overflow would end it
//
//     native_sums --modes 1        a rank flushes denormals, so only some ranks' products are NaNs
//
//     native_sums --own-order 1    prints a digest of sums, which shall be the same in all runs
//                                  --elements N: of shorter vectors only
#include <fenv.h>
#include <mpi.h>
#if defined(__SSE2__)
#include <pmmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "native_functions.hpp"

namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<unsigned char>;

int me = 0;
int ranks = 0;
MPI_Comm twin = MPI_COMM_NULL;  // for the MPI's own calls

std::int64_t below(Random& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

enum class Form : std::uint8_t { allreduce, reduce, reduce_scatter_block, reduce_scatter, scan, exscan, count };
constexpr const char* kForms[] = {"allreduce", "reduce", "reduce_scatter_block", "reduce_scatter", "scan", "exscan"};

struct Kind {
  Form form{};
  MPI_Datatype type{};
  MPI_Op op{};
  std::string name;
  int element_bytes = 0;
  int value_bytes = 0;  // without a gap at the end
  int root = 0;
  int elements = 0;
  std::vector<int> counts;  // of reduce_scatter
};

// The numbers of one vector.
enum class Numbers : std::uint8_t {
  ordinary,   // of all magnitudes, with denormals and zeros of both signs
  infinite,   // also positive infinities
  with_nans,  // also NaNs, and infinities of both signs
};

template <class T>
T nan_of(Random& random) {
  T nan = std::numeric_limits<T>::quiet_NaN();
  std::uint32_t payload = 0;
  std::memcpy(&payload, &nan, sizeof payload);
  payload |= static_cast<std::uint32_t>(random() % 1000);
  std::memcpy(&nan, &payload, sizeof payload);
  return random() % 2 == 0 ? nan : -nan;
}

template <class T>
T number(Random& random, std::uint64_t kind, Numbers numbers) {
  using Limits = std::numeric_limits<T>;
  const T sign = random() % 2 == 0 ? T{1} : T{-1};
  const T fraction = 1 + static_cast<T>(random() % 1'000'003) / 1'000'003;
  const auto exponent = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  if (numbers != Numbers::ordinary && kind % 50 == 0) return Limits::infinity();
  if (numbers == Numbers::with_nans && kind % 50 == 1) return random() % 3 == 0 ? nan_of<T>(random) : fraction;
  if (numbers == Numbers::with_nans && kind % 50 == 2) return sign * Limits::infinity();
  switch (kind % 9) {
    case 0: return random() % 2 == 0 ? T{0} : -T{0};
    case 1: return sign * Limits::denorm_min() * static_cast<T>(random() % 100);
    case 2: return sign * std::ldexp(fraction, exponent(-Limits::digits, Limits::digits));
    case 3: return sign * std::ldexp(T{1}, exponent(0, 2) * Limits::digits);  // cancels
    case 4: return sign * std::ldexp(fraction, exponent(Limits::min_exponent, Limits::min_exponent + 30));
    case 5: return std::ldexp(fraction, Limits::max_exponent - 2);  // may overflow
    default: return sign * std::ldexp(fraction, exponent(-2, 2));
  }
}

template <class T>
Bytes numbers_of(const Kind& kind, std::uint64_t seed, Numbers numbers) {
  const std::size_t parts = static_cast<std::size_t>(kind.element_bytes) / sizeof(T);
  const std::size_t count = static_cast<std::size_t>(kind.elements) * parts;
  Random alike(seed);
  Random mine(seed * 1009 + static_cast<std::uint64_t>(me) + 1);
  std::vector<T> values(count);
  for (T& value : values) value = number<T>(mine, alike(), numbers);
  Bytes bytes(count * sizeof(T));
  if (count != 0) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes contribution_of(const Kind& kind, std::uint64_t seed, Numbers numbers) {
  if (kind.type == MPI_FLOAT) return numbers_of<float>(kind, seed, numbers);
  if (kind.type == MPI_LONG_DOUBLE) return numbers_of<long double>(kind, seed, numbers);
  return numbers_of<double>(kind, seed, numbers);
}

Kind random_kind(Random& random, int most) {
  Kind kind;
  kind.form = below(random, 3) == 0 ? Form::allreduce : static_cast<Form>(below(random, static_cast<int>(Form::count)));
  switch (below(random, 8)) {
    case 0: kind.type = MPI_LONG_DOUBLE; break;
    case 1: kind.type = MPI_C_DOUBLE_COMPLEX; break;
    case 2:
    case 3: kind.type = MPI_FLOAT; break;
    default: kind.type = MPI_DOUBLE;
  }
  const std::string types = kind.type == MPI_FLOAT ? "float" : kind.type == MPI_DOUBLE ? "double" : "long numbers";
  const MPI_Op ops[] = {MPI_SUM, MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  const auto op = kind.type == MPI_C_DOUBLE_COMPLEX ? 0 : below(random, 5);
  kind.op = ops[op];
  MPI_Type_size(kind.type, &kind.element_bytes);
  kind.value_bytes =
      kind.type == MPI_LONG_DOUBLE && std::numeric_limits<long double>::digits == 64 ? 10 : kind.element_bytes;
  kind.root = static_cast<int>(below(random, ranks));
  // As many of each length, and those where MPIs change their ways.
  const double length = std::exp(std::log(most + 1.0) * static_cast<double>(below(random, 1000)) / 1000);
  kind.elements = std::clamp(static_cast<int>(length), 1, most);
  if (below(random, 3) == 0) {
    const int edges[] = {1, 2, 3, 256, 257, 1024, 1280, 1281, 2048, 2049, 10'000, 65'536, 100'000};
    kind.elements = std::min(edges[below(random, 13)], most);
  }
  if (kind.form == Form::reduce_scatter) {
    kind.counts.resize(static_cast<std::size_t>(ranks));
    for (int& count : kind.counts) {
      count = static_cast<int>(below(random, below(random, 4) == 0 ? 2 : 1 + 2 * kind.elements / ranks));
    }
    kind.elements = 0;
    for (const int count : kind.counts) kind.elements += count;
  } else if (kind.form == Form::reduce_scatter_block) {
    kind.counts.assign(static_cast<std::size_t>(ranks), std::max(1, kind.elements / ranks));
    kind.elements = kind.counts.front() * ranks;
  }
  kind.name = std::string(kForms[static_cast<int>(kind.form)]) + ", operation " + std::to_string(op) + " of " +
              std::to_string(kind.elements) + " " + types + ", root " + std::to_string(kind.root);
  return kind;
}

// The result, as far as it is defined.
Bytes reduce(const Kind& kind, const Bytes& contribution, bool in_place, bool native) {
  const MPI_Comm comm = native ? twin : MPI_COMM_WORLD;
  Bytes result = in_place ? contribution : Bytes(contribution.size(), 0xEE);
  const void* from = in_place ? MPI_IN_PLACE : contribution.data();
  int defined = kind.elements;
  switch (kind.form) {
    case Form::reduce: {
      const void* given = me == kind.root ? from : contribution.data();
      CALL(Reduce, given, result.data(), kind.elements, kind.type, kind.op, kind.root, comm);
      defined = me == kind.root ? defined : 0;
      break;
    }
    case Form::reduce_scatter_block:
      CALL(Reduce_scatter_block, from, result.data(), kind.counts.front(), kind.type, kind.op, comm);
      defined = kind.counts.front();
      break;
    case Form::reduce_scatter:
      CALL(Reduce_scatter, from, result.data(), kind.counts.data(), kind.type, kind.op, comm);
      defined = kind.counts[static_cast<std::size_t>(me)];
      break;
    case Form::scan: CALL(Scan, from, result.data(), kind.elements, kind.type, kind.op, comm); break;
    case Form::exscan:
      CALL(Exscan, from, result.data(), kind.elements, kind.type, kind.op, comm);
      defined = me == 0 ? 0 : defined;
      break;
    default: CALL(Allreduce, from, result.data(), kind.elements, kind.type, kind.op, comm);
  }
  result.resize(static_cast<std::size_t>(defined) * static_cast<std::size_t>(kind.element_bytes));
  return result;
}

bool are_equal(const Kind& kind, const Bytes& ours, const Bytes& natives) {
  for (std::size_t at = 0; at < ours.size(); at += static_cast<std::size_t>(kind.element_bytes)) {
    if (std::memcmp(&ours[at], &natives[at], static_cast<std::size_t>(kind.value_bytes)) == 0) continue;
    std::printf("rank %d of %d: %s: element %zu of %d differs\n", me, ranks, kind.name.c_str(),
                at / static_cast<std::size_t>(kind.element_bytes), kind.elements);
    return false;
  }
  return true;
}

// MPICH 4.0 crashes where long vectors are reduced in place at another root than 0, or scattered in blocks that overlap
// the start.
bool may_be_in_place(const Kind& kind) {
#if defined(MPICH_VERSION)
  const bool may_crash = (kind.form == Form::reduce && kind.root != 0) || kind.form == Form::reduce_scatter;
  return !may_crash || kind.elements * kind.element_bytes <= 1024;
#else
  static_cast<void>(kind);
  return true;
#endif
}

bool compare(const Kind& kind, Random& random, int calls) {
  bool same = true;
  for (int call = 0; call < calls; ++call) {
    const bool in_place = below(random, 3) == 0 && may_be_in_place(kind);
    const std::uint64_t seed = random();
    const Numbers numbers = call % 6 == 2 ? Numbers::infinite : call % 6 == 4 ? Numbers::with_nans : Numbers::ordinary;
    const Bytes contribution = contribution_of(kind, seed, numbers);
    const Bytes natives = reduce(kind, contribution, in_place, true);
    same = are_equal(kind, reduce(kind, contribution, in_place, false), natives) && same;
  }
  return same;
}

Kind sums_of(int elements) {
  Kind kind;
  kind.form = Form::allreduce;
  kind.type = MPI_DOUBLE;
  kind.op = MPI_SUM;
  kind.name = "sums";
  kind.element_bytes = kind.value_bytes = 8;
  kind.elements = elements;
  return kind;
}

// The same in each run, with whatever MPI and layout.
std::uint64_t digest_of_sums(int most) {
  std::uint64_t digest = 0;
  for (const int elements : {1, 5, 1000, 20'000}) {
    if (elements > most) continue;
    const Kind kind = sums_of(elements);
    for (int call = 0; call < 40; ++call) {
      const Bytes result = reduce(kind, numbers_of<double>(kind, static_cast<std::uint64_t>(call), Numbers::ordinary),
                                  call % 2 != 0, false);
      for (const unsigned char byte : result) digest = digest * 0x100000001B3ULL + byte;
    }
  }
  return digest;
}

bool are_same(const Kind& kind, const std::vector<double>& values) {
  Bytes contribution(values.size() * sizeof(double));
  std::memcpy(contribution.data(), values.data(), contribution.size());
  const Bytes natives = reduce(kind, contribution, false, true);
  return are_equal(kind, reduce(kind, contribution, false, false), natives);
}

// The first rank gets nothing, and must do what the others do where there are NaNs.
bool scatter_beside_nans() {
  Kind kind = sums_of(2 * (ranks - 1));
  kind.form = Form::reduce_scatter;
  kind.counts.assign(static_cast<std::size_t>(ranks), 2);
  kind.counts.front() = 0;
  bool same = true;
  for (int call = 0; call < 40; ++call) {
    std::vector<double> values(static_cast<std::size_t>(kind.elements), 0.1 * (me + call));
    if (call % 10 == 7 && me == ranks - 1) values.front() = std::numeric_limits<double>::quiet_NaN();
    same = are_same(kind, values) && same;
  }
  return same;
}

// The last rank's number is in no result. With another one it would overflow. MPICH adds it all the same.
bool scan_with_traps() {
#if defined(MPICH_VERSION)
  return true;
#else
  Kind kind = sums_of(1);
  kind.form = Form::exscan;
  bool same = true;
  for (int call = 0; call < 100; ++call) same = are_same(kind, {1.0 + call}) && same;
  feenableexcept(FE_OVERFLOW | FE_INVALID);
  for (int call = 0; call < 20; ++call) same = are_same(kind, {me == ranks - 1 ? 1.7e308 : 2e307}) && same;
  fedisableexcept(FE_OVERFLOW | FE_INVALID);
  return same;
#endif
}

// Results may differ; but ranks must come to the same about them, and the next sum is right.
bool sums_after_different_modes() {
#if defined(__SSE2__)
  constexpr int kElements = 1000;
  std::vector<double> values(kElements, 1.0);
  std::vector<double> results(kElements);
  for (int call = 0; call < 3; ++call) {
    MPI_Allreduce(values.data(), results.data(), kElements, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
  }
  const unsigned modes = _mm_getcsr();
  if (me == ranks / 2) _mm_setcsr(modes | _MM_DENORMALS_ZERO_ON | _MM_FLUSH_ZERO_ON);
  if (me == 0) values.front() = std::numeric_limits<double>::denorm_min();
  if (me == ranks - 1) values.front() = std::numeric_limits<double>::infinity();
  MPI_Allreduce(values.data(), results.data(), kElements, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
  _mm_setcsr(modes);
  return are_same(sums_of(kElements), std::vector<double>(kElements, me + 0.1));
#else
  return true;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  std::uint64_t seed = 1;
  int kinds = 30;
  int calls = 6;
  int most = 100'000;
  int lengths = 0;
  bool own_order = false;
  bool edges = false;
  bool modes = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long value = std::atol(argv[i + 1]);
    if (name == "--seed") seed = static_cast<std::uint64_t>(value);
    if (name == "--kinds") kinds = static_cast<int>(value);
    if (name == "--calls") calls = static_cast<int>(value);
    if (name == "--elements") most = static_cast<int>(value);
    if (name == "--lengths") lengths = static_cast<int>(value);
    if (name == "--edges") edges = value != 0;
    if (name == "--modes") modes = value != 0;
    if (name == "--own-order") own_order = value != 0;
  }
  if (own_order) {
    const std::uint64_t digest = digest_of_sums(most);
    if (me == 0) std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
  } else {
    Random random(seed);
    int same = 1;
    if (edges && !scatter_beside_nans()) same = 0;
    if (edges && !scan_with_traps()) same = 0;
    if (modes && !sums_after_different_modes()) same = 0;
    for (int i = 0; !edges && !modes && i < std::max(kinds, lengths); ++i) {
      const Kind kind = lengths != 0 ? sums_of(i % lengths + 1) : random_kind(random, most);
      if (!compare(kind, random, calls)) same = 0;
    }
    int all = 0;
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, twin);
    if (me == 0) std::printf(all != 0 ? "no difference\n" : "differences\n");
  }
  MPI_Comm_free(&twin);
  MPI_Finalize();
  return 0;
}
