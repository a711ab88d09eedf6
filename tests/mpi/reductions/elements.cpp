#include "elements.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace reductions {
namespace {

using differential::Random;

// The rest of a long double is undefined.
template <class T>
constexpr std::size_t bytes_of = std::is_same_v<T, long double> && LDBL_MANT_DIG == 64 ? 10 : sizeof(T);

template <class T>
T load(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, bytes_of<T>);
}

// Calls visit(T{}) for the C type.
template <class Visit>
void with_type(Number number, const Visit& visit) {
  switch (number) {
    case Number::i8: return visit(std::int8_t{});
    case Number::i16: return visit(std::int16_t{});
    case Number::i32: return visit(std::int32_t{});
    case Number::i64: return visit(std::int64_t{});
    case Number::u8: return visit(std::uint8_t{});
    case Number::u16: return visit(std::uint16_t{});
    case Number::u32: return visit(std::uint32_t{});
    case Number::u64: return visit(std::uint64_t{});
    case Number::f32: return visit(float{});
    case Number::f64: return visit(double{});
    case Number::f80: return visit(static_cast<long double>(0));
  }
}

template <class T>
Number number_of() {
  if constexpr (std::is_same_v<T, float>) return Number::f32;
  if constexpr (std::is_same_v<T, double>) return Number::f64;
  if constexpr (std::is_same_v<T, long double>) return Number::f80;
  constexpr int first = std::is_signed_v<T> ? 0 : 4;
  constexpr int width = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return static_cast<Number>(first + width);
}

// True if the loaded MPI has the type with this size. An MPI without Fortran has no Fortran types.
bool is_there(MPI_Datatype type, std::size_t bytes) {
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  const bool known = type != MPI_DATATYPE_NULL && MPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS;
  return known && static_cast<std::size_t>(extent) == bytes;
}

class List {
 public:
  template <class T>
  void add(Values values, const char* name, MPI_Datatype type) {
    if (is_there(type, sizeof(T))) all_.push_back({name, type, values, number_of<T>(), Number::i8, sizeof(T), 0});
  }
  template <class T>
  void add_complex(const char* name, MPI_Datatype type) {
    if (!is_there(type, 2 * sizeof(T))) return;
    all_.push_back({name, type, Values::complex, number_of<T>(), number_of<T>(), 2 * sizeof(T), sizeof(T)});
  }
  template <class T, class Index>
  void add_located(const char* name, MPI_Datatype type) {
    struct Both {
      T value;
      Index index;
    };
    if (!is_there(type, sizeof(Both))) return;
    all_.push_back(
        {name, type, Values::located, number_of<T>(), number_of<Index>(), sizeof(Both), offsetof(Both, index)});
  }
  [[nodiscard]] std::vector<Element> take() { return std::move(all_); }

 private:
  std::vector<Element> all_;
};

#define NAMED(type) #type, type

void add_integers(List& list) {
  using enum Values;
  list.add<signed char>(integer, NAMED(MPI_SIGNED_CHAR));
  list.add<unsigned char>(integer, NAMED(MPI_UNSIGNED_CHAR));
  list.add<short>(integer, NAMED(MPI_SHORT));
  list.add<unsigned short>(integer, NAMED(MPI_UNSIGNED_SHORT));
  list.add<int>(integer, NAMED(MPI_INT));
  list.add<unsigned>(integer, NAMED(MPI_UNSIGNED));
  list.add<long>(integer, NAMED(MPI_LONG));
  list.add<unsigned long>(integer, NAMED(MPI_UNSIGNED_LONG));
  list.add<long long>(integer, NAMED(MPI_LONG_LONG));
  list.add<unsigned long long>(integer, NAMED(MPI_UNSIGNED_LONG_LONG));
  list.add<std::int8_t>(integer, NAMED(MPI_INT8_T));
  list.add<std::uint16_t>(integer, NAMED(MPI_UINT16_T));
  list.add<std::int32_t>(integer, NAMED(MPI_INT32_T));
  list.add<std::uint64_t>(integer, NAMED(MPI_UINT64_T));
  list.add<MPI_Aint>(fortran_integer, NAMED(MPI_AINT));
  list.add<MPI_Offset>(fortran_integer, NAMED(MPI_OFFSET));
  list.add<MPI_Count>(fortran_integer, NAMED(MPI_COUNT));
  list.add<int>(fortran_integer, NAMED(MPI_INTEGER));
  list.add<unsigned char>(byte, NAMED(MPI_BYTE));
  list.add<unsigned char>(logical, NAMED(MPI_C_BOOL));
  list.add<int>(logical, NAMED(MPI_LOGICAL));
}

void add_floating(List& list) {
  using enum Values;
  list.add<float>(floating, NAMED(MPI_FLOAT));
  list.add<double>(floating, NAMED(MPI_DOUBLE));
  list.add<long double>(floating, NAMED(MPI_LONG_DOUBLE));
  list.add<float>(floating, NAMED(MPI_REAL));
  list.add<double>(floating, NAMED(MPI_DOUBLE_PRECISION));
  list.add_complex<float>(NAMED(MPI_C_FLOAT_COMPLEX));
  list.add_complex<double>(NAMED(MPI_C_DOUBLE_COMPLEX));
  list.add_complex<long double>(NAMED(MPI_C_LONG_DOUBLE_COMPLEX));
  list.add_complex<float>(NAMED(MPI_COMPLEX));
  list.add_complex<double>(NAMED(MPI_DOUBLE_COMPLEX));
}

void add_located(List& list) {
  list.add_located<float, int>(NAMED(MPI_FLOAT_INT));
  list.add_located<double, int>(NAMED(MPI_DOUBLE_INT));
  list.add_located<long, int>(NAMED(MPI_LONG_INT));
  list.add_located<int, int>(NAMED(MPI_2INT));
  list.add_located<short, int>(NAMED(MPI_SHORT_INT));
  list.add_located<long double, int>(NAMED(MPI_LONG_DOUBLE_INT));
  list.add_located<float, float>(NAMED(MPI_2REAL));
  list.add_located<double, double>(NAMED(MPI_2DOUBLE_PRECISION));
  list.add_located<int, int>(NAMED(MPI_2INTEGER));
}

std::vector<Element> find_elements() {
  const std::array<MPI_Comm, 2> told{MPI_COMM_WORLD, MPI_COMM_SELF};
  for (const MPI_Comm comm : told) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  List list;
  add_integers(list);
  add_floating(list);
  add_located(list);
  for (const MPI_Comm comm : told) MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  return list.take();
}

// Sums of these are rounded, and are never a zero of either sign.
template <class T>
T some_floating(bool multiplied, Random& random) {
  if (multiplied) return static_cast<T>(1 + static_cast<double>(2 * random.below(64) + 1) / 512);
  return static_cast<T>(2 * random.below(40'000) + 1) / 7;
}

template <class T>
T some_integer(Combine combine, bool wild, Random& random) {
  if (wild) return static_cast<T>(random.next());
  if (combine != Combine::prod) return static_cast<T>(random.between(1, 15));
  return static_cast<T>(sizeof(T) == 1 ? 1 : random.between(1, 3));
}

// Few values, so that many are equal and the index decides.
template <class T>
void fill_located(const Element& element, std::byte* at, Random& random) {
  store(at, static_cast<T>(random.between(1, 5)));
  with_type(element.index,
            [&]<class Index>(Index) { store(at + element.second_at, static_cast<Index>(random.below(1000))); });
}

template <class T>
void fill_one(const Element& element, const Operator& op, bool wild, std::byte* at, Random& random) {
  if (element.values == Values::located) return fill_located<T>(element, at, random);
  if constexpr (std::is_floating_point_v<T>) {
    store(at, some_floating<T>(op.combine == Combine::prod, random));
    if (element.second_at != 0)
      store(at + element.second_at, some_floating<T>(op.combine == Combine::prod, random) / 8);
  } else if (element.values == Values::logical) {
    store(at, static_cast<T>(random.below(2)));
  } else {
    store(at, some_integer<T>(op.combine, wild, random));
  }
}

template <class T>
T combine_integers(Combine combine, T a, T b) {
  using Wraps = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
  const auto first = static_cast<Wraps>(static_cast<std::make_unsigned_t<T>>(a));
  const auto second = static_cast<Wraps>(static_cast<std::make_unsigned_t<T>>(b));
  switch (combine) {
    case Combine::own:
    case Combine::sum: return static_cast<T>(first + second);
    case Combine::prod: return static_cast<T>(first * second);
    case Combine::max: return std::max(a, b);
    case Combine::min: return std::min(a, b);
    case Combine::land: return static_cast<T>(a != 0 && b != 0 ? 1 : 0);
    case Combine::lor: return static_cast<T>(a != 0 || b != 0 ? 1 : 0);
    case Combine::lxor: return static_cast<T>((a != 0) != (b != 0) ? 1 : 0);
    case Combine::band: return static_cast<T>(first & second);
    case Combine::bor: return static_cast<T>(first | second);
    case Combine::bxor: return static_cast<T>(first ^ second);
    default: return a;
  }
}

template <class T>
T combine_floating(Combine combine, T a, T b) {
  switch (combine) {
    case Combine::sum: return a + b;
    case Combine::prod: return a * b;
    case Combine::max: return std::max(a, b);
    case Combine::min: return std::min(a, b);
    default: return a;
  }
}

template <class T>
void combine_complex(const Element& element, Combine combine, std::byte* so_far, const std::byte* next) {
  const T real = load<T>(so_far);
  const T imaginary = load<T>(so_far + element.second_at);
  const T other_real = load<T>(next);
  const T other_imaginary = load<T>(next + element.second_at);
  const bool sums = combine == Combine::sum;
  store(so_far, sums ? real + other_real : real * other_real - imaginary * other_imaginary);
  store(so_far + element.second_at,
        sums ? imaginary + other_imaginary : real * other_imaginary + imaginary * other_real);
}

template <class T, class Index>
void combine_located(const Element& element, Combine combine, std::byte* so_far, const std::byte* next) {
  const T value = load<T>(so_far);
  const T other = load<T>(next);
  const auto index = load<Index>(so_far + element.second_at);
  const auto other_index = load<Index>(next + element.second_at);
  const bool is_better = combine == Combine::maxloc ? other > value : other < value;
  if (is_better) store(so_far, other);
  if (is_better || (other == value && other_index < index)) store(so_far + element.second_at, other_index);
}

template <class T>
void combine_one(const Element& element, Combine combine, std::byte* so_far, const std::byte* next) {
  if (element.values == Values::located) {
    with_type(element.index, [&]<class Index>(Index) { combine_located<T, Index>(element, combine, so_far, next); });
  } else if constexpr (std::is_floating_point_v<T>) {
    if (element.values == Values::complex) return combine_complex<T>(element, combine, so_far, next);
    store(so_far, combine_floating(combine, load<T>(so_far), load<T>(next)));
  } else {
    store(so_far, combine_integers(combine, load<T>(so_far), load<T>(next)));
  }
}

// The defined bytes of an element.
std::vector<bool> defined_bytes(const Element& element) {
  std::vector<bool> defined(element.bytes, false);
  const auto mark = [&](Number number, std::size_t at) {
    with_type(number,
              [&]<class T>(T) { std::fill_n(defined.begin() + static_cast<std::ptrdiff_t>(at), bytes_of<T>, true); });
  };
  mark(element.number, 0);
  if (element.second_at != 0) mark(element.index, element.second_at);
  return defined;
}

template <class T>
bool is_near(const Element& element, const std::byte* one, const std::byte* other, T bound) {
  T distance = std::fabs(load<T>(one) - load<T>(other));
  T size = std::fabs(load<T>(one));
  if (element.second_at != 0) {  // the error of both parts of a complex number is relative to the larger part
    const T here = load<T>(one + element.second_at);
    distance = std::max(distance, std::fabs(here - load<T>(other + element.second_at)));
    size = std::max(size, std::fabs(here));
  }
  return distance <= bound * size;  // false for NaN
}

}  // namespace

const std::vector<Element>& elements() {
  static const std::vector<Element> all = find_elements();
  return all;
}

std::vector<Operator> operators_of(const Element& element) {
  std::vector<Operator> all;
  const bool is_integer = element.values == Values::integer || element.values == Values::fortran_integer;
  const bool is_ordered = is_integer || element.values == Values::floating;
  if (is_ordered || element.values == Values::complex) {
    all.push_back({NAMED(MPI_SUM), Combine::sum});
    all.push_back({NAMED(MPI_PROD), Combine::prod});
  }
  if (is_ordered) {
    all.push_back({NAMED(MPI_MAX), Combine::max});
    all.push_back({NAMED(MPI_MIN), Combine::min});
  }
  if (element.values == Values::integer || element.values == Values::logical) {
    all.push_back({NAMED(MPI_LAND), Combine::land});
    all.push_back({NAMED(MPI_LOR), Combine::lor});
    all.push_back({NAMED(MPI_LXOR), Combine::lxor});
  }
  if (is_integer || element.values == Values::byte) {
    all.push_back({NAMED(MPI_BAND), Combine::band});
    all.push_back({NAMED(MPI_BOR), Combine::bor});
    all.push_back({NAMED(MPI_BXOR), Combine::bxor});
  }
  if (element.values == Values::located) {
    all.push_back({NAMED(MPI_MAXLOC), Combine::maxloc});
    all.push_back({NAMED(MPI_MINLOC), Combine::minloc});
  }
  return all;
}

void fill(const Element& element, const Operator& op, bool wild, std::byte* at, std::size_t count, Random random) {
  std::memset(at, 0, count * element.bytes);
  with_type(element.number, [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) fill_one<T>(element, op, wild, at + i * element.bytes, random);
  });
}

void reduce(const Element& element, const Operator& op, std::byte* so_far, const std::byte* next, std::size_t count) {
  with_type(element.number, [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      combine_one<T>(element, op.combine, so_far + i * element.bytes, next + i * element.bytes);
    }
  });
}

bool rounds(const Element& element, const Operator& op) {
  return (element.values == Values::floating || element.values == Values::complex) &&
         (op.combine == Combine::sum || op.combine == Combine::prod);
}

void copy_gaps(const Element& element, const std::byte* from, std::byte* to, std::size_t count) {
  const std::vector<bool> defined = defined_bytes(element);
  if (std::find(defined.begin(), defined.end(), false) == defined.end()) return;
  for (std::size_t i = 0; i < count * element.bytes; ++i) {
    if (!defined[i % element.bytes]) to[i] = from[i];
  }
}

bool near(const Element& element, const std::byte* one, const std::byte* other, std::size_t count, int ranks) {
  bool all = true;
  with_type(element.number, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      const T bound = static_cast<T>(8 * ranks) * std::numeric_limits<T>::epsilon();
      for (std::size_t i = 0; i < count && all; ++i) {
        all = is_near<T>(element, one + i * element.bytes, other + i * element.bytes, bound);
      }
    }
  });
  return all;
}

}  // namespace reductions
