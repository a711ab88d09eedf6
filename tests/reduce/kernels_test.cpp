// Every kernel of every instruction set of this processor, against plain references: random and special values, any
// count, any alignment, with the result in a separate buffer and in the left operand.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "reduce/reduce.hpp"

namespace outrigger::reduce {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store(std::byte* to, T value, std::size_t bytes = sizeof(T)) {
  std::memcpy(to, &value, bytes);
}

// An x87 long double has ten bytes; the rest is padding.
template <class T>
constexpr std::size_t kUsedBytes = sizeof(T);
template <>
constexpr std::size_t kUsedBytes<long double> =
    std::numeric_limits<long double>::digits == 64 ? 10 : sizeof(long double);

// ---------------------------------------------------------------- random elements

class Values {
 public:
  explicit Values(std::uint32_t seed) : generator_(seed) {}

  template <class T>
  T some() {
    if constexpr (std::is_floating_point_v<T>) {
      switch (generator_() % 8) {
        case 0: return std::numeric_limits<T>::quiet_NaN();
        case 1: return std::numeric_limits<T>::infinity();
        case 2: return -std::numeric_limits<T>::infinity();
        case 3: return generator_() % 2 == 0 ? T{0} : -T{0};
        case 4: return std::numeric_limits<T>::denorm_min();
        default: return static_cast<T>(static_cast<double>(generator_()) / 1e6 - 2000);
      }
    } else {
      const std::uint64_t bits = (std::uint64_t{generator_()} << 32) | generator_();
      switch (bits % 5) {
        case 0: return std::numeric_limits<T>::max();
        case 1: return std::numeric_limits<T>::min();
        case 2: return T{0};
        default: return static_cast<T>(bits >> 7);
      }
    }
  }
  // From few values, so that there are ties.
  template <class T>
  T one_of_few() {
    return static_cast<T>(generator_() % 3);
  }
  std::byte some_byte() { return static_cast<std::byte>(generator_()); }

 private:
  std::mt19937 generator_;
};

// ---------------------------------------------------------------- making, combining and comparing elements

struct Scalars {
  template <class T>
  static void fill(Values& values, std::byte* element) {
    store(element, values.some<T>(), kUsedBytes<T>);
  }
  template <class T>
  static bool same(const std::byte* a, const std::byte* b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(load<T>(a)) && std::isnan(load<T>(b))) return true;
    }
    return std::memcmp(a, b, kUsedBytes<T>) == 0;
  }
};

// Wide enough for any product of two integers, then truncated.
template <class T>
T integer_of(ReduceOperation operation, T left, T right) {
  __extension__ using Wide = unsigned __int128;
  const Wide a = static_cast<std::make_unsigned_t<T>>(left);
  const Wide b = static_cast<std::make_unsigned_t<T>>(right);
  switch (operation) {
    case ReduceOperation::max: return left < right ? right : left;
    case ReduceOperation::min: return left < right ? left : right;
    case ReduceOperation::sum: return static_cast<T>(a + b);
    case ReduceOperation::prod: return static_cast<T>(a * b);
    case ReduceOperation::land: return left != 0 && right != 0 ? 1 : 0;
    case ReduceOperation::lor: return left != 0 || right != 0 ? 1 : 0;
    case ReduceOperation::lxor: return (left == 0) != (right == 0) ? 1 : 0;
    case ReduceOperation::band: return static_cast<T>(a & b);
    case ReduceOperation::bor: return static_cast<T>(a | b);
    case ReduceOperation::bxor: return static_cast<T>(a ^ b);
    default: ADD_FAILURE(); return 0;
  }
}

template <class T>
T float_of(ReduceOperation operation, T left, T right) {
  const bool ordered = !std::isnan(left) && !std::isnan(right);
  switch (operation) {
    case ReduceOperation::max: return ordered && left < right ? right : left;
    case ReduceOperation::min: return ordered && right < left ? right : left;
    case ReduceOperation::sum: return left + right;
    case ReduceOperation::prod: return left * right;
    default: ADD_FAILURE(); return 0;
  }
}

template <class T>
struct Integer {
  static void fill(Values& values, std::byte* element) { Scalars::fill<T>(values, element); }
  static void combine(ReduceOperation operation, const std::byte* left, const std::byte* right, std::byte* into) {
    store(into, integer_of(operation, load<T>(left), load<T>(right)));
  }
  static bool same(const std::byte* a, const std::byte* b) { return Scalars::same<T>(a, b); }
};

template <class T>
struct Float {
  static void fill(Values& values, std::byte* element) { Scalars::fill<T>(values, element); }
  static void combine(ReduceOperation operation, const std::byte* left, const std::byte* right, std::byte* into) {
    store(into, float_of(operation, load<T>(left), load<T>(right)), kUsedBytes<T>);
  }
  static bool same(const std::byte* a, const std::byte* b) { return Scalars::same<T>(a, b); }
};

template <class T>
struct Complex {
  static void fill(Values& values, std::byte* element) {
    Scalars::fill<T>(values, element);
    Scalars::fill<T>(values, element + sizeof(T));
  }
  static void combine(ReduceOperation operation, const std::byte* left, const std::byte* right, std::byte* into) {
    const std::complex<T> a(load<T>(left), load<T>(left + sizeof(T)));
    const std::complex<T> b(load<T>(right), load<T>(right + sizeof(T)));
    const std::complex<T> result = operation == ReduceOperation::sum ? a + b : a * b;
    store(into, result.real(), kUsedBytes<T>);
    store(into + sizeof(T), result.imag(), kUsedBytes<T>);
  }
  static bool same(const std::byte* a, const std::byte* b) {
    return Scalars::same<T>(a, b) && Scalars::same<T>(a + sizeof(T), b + sizeof(T));
  }
};

template <class Value, class Index>
struct Pair {
  struct Layout {
    Value value;
    Index index;
  };
  static constexpr std::size_t kIndex = offsetof(Layout, index);
  static void fill(Values& values, std::byte* element) {
    if (values.one_of_few<int>() == 0) {
      Scalars::fill<Value>(values, element);
    } else {
      store(element, values.one_of_few<Value>(), kUsedBytes<Value>);
    }
    store(element + kIndex, values.one_of_few<Index>(), kUsedBytes<Index>);
  }
  static void combine(ReduceOperation operation, const std::byte* left, const std::byte* right, std::byte* into) {
    const auto a = load<Value>(left);
    const auto b = load<Value>(right);
    const auto a_index = load<Index>(left + kIndex);
    const auto b_index = load<Index>(right + kIndex);
    const bool takes_right = operation == ReduceOperation::maxloc ? b > a : b < a;
    store(into, takes_right ? b : a, kUsedBytes<Value>);
    store(into + kIndex, takes_right ? b_index : a == b ? std::min(a_index, b_index) : a_index, kUsedBytes<Index>);
  }
  static bool same(const std::byte* a, const std::byte* b) {
    return Scalars::same<Value>(a, b) && Scalars::same<Index>(a + kIndex, b + kIndex);
  }
};

struct Elements {
  void (*fill)(Values& values, std::byte* element);
  void (*combine)(ReduceOperation operation, const std::byte* left, const std::byte* right, std::byte* into);
  bool (*same)(const std::byte* a, const std::byte* b);
};
template <class Kind>
constexpr Elements kOf{Kind::fill, Kind::combine, Kind::same};

Elements elements_of(ElementType type) {
  switch (type) {
    case ElementType::int8: return kOf<Integer<std::int8_t>>;
    case ElementType::int16: return kOf<Integer<std::int16_t>>;
    case ElementType::int32: return kOf<Integer<std::int32_t>>;
    case ElementType::int64: return kOf<Integer<std::int64_t>>;
    case ElementType::uint8:
    case ElementType::logical8:
    case ElementType::byte: return kOf<Integer<std::uint8_t>>;
    case ElementType::uint16:
    case ElementType::logical16: return kOf<Integer<std::uint16_t>>;
    case ElementType::uint32:
    case ElementType::logical32: return kOf<Integer<std::uint32_t>>;
    case ElementType::uint64:
    case ElementType::logical64: return kOf<Integer<std::uint64_t>>;
    case ElementType::float32: return kOf<Float<float>>;
    case ElementType::float64: return kOf<Float<double>>;
    case ElementType::long_double: return kOf<Float<long double>>;
    case ElementType::complex_float: return kOf<Complex<float>>;
    case ElementType::complex_double: return kOf<Complex<double>>;
    case ElementType::complex_long_double: return kOf<Complex<long double>>;
    case ElementType::float_int: return kOf<Pair<float, int>>;
    case ElementType::double_int: return kOf<Pair<double, int>>;
    case ElementType::long_int: return kOf<Pair<long, int>>;
    case ElementType::two_int: return kOf<Pair<int, int>>;
    case ElementType::short_int: return kOf<Pair<short, int>>;
    case ElementType::long_double_int: return kOf<Pair<long double, int>>;
    case ElementType::two_real: return kOf<Pair<float, float>>;
    case ElementType::two_double: return kOf<Pair<double, double>>;
  }
  ADD_FAILURE();
  return kOf<Integer<std::uint8_t>>;
}

// ---------------------------------------------------------------- the tests

struct Case {
  InstructionSet set;
  Reduction reduction;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const InstructionSet set : instruction_sets()) {
    for (const ReduceOperationRow& operation : kReduceOperations) {
      for (const ElementTypeRow& type : kElementTypes) {
        if (!is_defined(operation.operation, type.kind)) continue;
        cases.push_back(Case{set, Reduction{operation.operation, type.type}});
      }
    }
  }
  return cases;
}

class Kernels : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t kGuardBytes = 64;

  // An odd address, with guards around it.
  struct Buffer {
    Buffer(std::size_t bytes, std::size_t shift, Values& values)
        : memory(bytes + 2 * kGuardBytes), begin(kGuardBytes + shift) {
      for (std::byte& byte : memory) byte = values.some_byte();
    }
    std::byte* data() { return memory.data() + begin; }
    Bytes memory;
    std::size_t begin;
  };

  void try_count(std::size_t count, std::size_t shift) {
    const Reduction reduction = GetParam().reduction;
    const Elements elements = elements_of(reduction.type);
    const std::size_t width = reduction.element_bytes();
    const std::size_t bytes = count * width;
    Buffer left(bytes, shift, values_);
    Buffer right(bytes, (shift * 3) % 16, values_);
    Buffer into(bytes, (shift * 5) % 16, values_);
    for (std::size_t i = 0; i < count; ++i) {
      elements.fill(values_, left.data() + i * width);
      elements.fill(values_, right.data() + i * width);
    }
    Bytes beside = into.memory;
    Bytes in_left = left.memory;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i * width;
      elements.combine(reduction.operation, left.data() + at, right.data() + at, beside.data() + into.begin + at);
      elements.combine(reduction.operation, left.data() + at, right.data() + at, in_left.data() + left.begin + at);
    }
    const Kernel kernel = kernel_of(GetParam().set, reduction);
    ASSERT_NE(kernel, nullptr);
    const Bytes right_before = right.memory;
    kernel(left.data(), right.data(), into.data(), count);
    expect_same(into.memory, beside, into.begin, count, "beside");
    kernel(left.data(), right.data(), left.data(), count);
    expect_same(left.memory, in_left, left.begin, count, "in the left operand");
    EXPECT_EQ(right.memory, right_before);
  }

  // Compares elements, and all bytes outside of elements: guards and gaps.
  void expect_same(Bytes& got, const Bytes& wanted, std::size_t begin, std::size_t count, const char* where) const {
    const Elements elements = elements_of(GetParam().reduction.type);
    const std::size_t width = GetParam().reduction.element_bytes();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = begin + i * width;
      ASSERT_TRUE(elements.same(got.data() + at, wanted.data() + at)) << where << ", element " << i << " of " << count;
      // NaNs may differ in their payload.
      if (may_differ_in_bits()) std::copy_n(wanted.data() + at, width, got.data() + at);
    }
    ASSERT_EQ(got, wanted) << where << ", " << count << " elements";
  }
  [[nodiscard]] bool may_differ_in_bits() const {
    const ElementKind kind = row_of(GetParam().reduction.type).kind;
    const ReduceOperation operation = GetParam().reduction.operation;
    return (kind == ElementKind::floating || kind == ElementKind::complex) &&
           (operation == ReduceOperation::sum || operation == ReduceOperation::prod);
  }

  Values values_{42};
};

TEST_P(Kernels, AgreesWithPlainCode) {
  for (std::size_t count = 0; count < 70; ++count) try_count(count, count % 16);
  for (std::size_t shift = 0; shift < 16; ++shift) try_count(1001, shift);
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(name_of(info.param.set)) + "_" +
                     std::string(outrigger::name_of(info.param.reduction.operation)) + "_" +
                     std::string(outrigger::name_of(info.param.reduction.type));
  for (char& letter : name) {
    if (letter == '-') letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Kernels, testing::ValuesIn(all_cases()), name_of_case);

TEST(KernelTable, HasWhatIsDefinedAndNothingElse) {
  for (const InstructionSet set : instruction_sets()) {
    for (const ReduceOperationRow& operation : kReduceOperations) {
      for (const ElementTypeRow& type : kElementTypes) {
        const Kernel kernel = kernel_of(set, Reduction{operation.operation, type.type});
        EXPECT_EQ(kernel != nullptr, is_defined(operation.operation, type.kind)) << operation.name << " " << type.name;
      }
    }
  }
}

// Sums that are rounded: the same by all instruction sets, and not fused with a product.
TEST(KernelTable, GivesTheSameBitsByAllInstructionSets) {
  Values values(7);
  for (const ReduceOperation operation : {ReduceOperation::sum, ReduceOperation::prod}) {
    for (const ElementType type :
         {ElementType::float32, ElementType::float64, ElementType::complex_float, ElementType::complex_double}) {
      const Reduction reduction{operation, type};
      const std::size_t count = 999;
      Bytes left(count * reduction.element_bytes());
      Bytes right(left.size());
      const std::size_t part = type == ElementType::float32 || type == ElementType::complex_float ? 4 : 8;
      for (std::size_t at = 0; at < left.size(); at += part) {
        const auto a = static_cast<double>(values.some<std::uint16_t>()) / 7;
        const auto b = static_cast<double>(values.some<std::uint16_t>()) / 11;
        part == 4 ? store(left.data() + at, static_cast<float>(a)) : store(left.data() + at, a);
        part == 4 ? store(right.data() + at, static_cast<float>(b)) : store(right.data() + at, b);
      }
      Bytes first;
      for (const InstructionSet set : instruction_sets()) {
        Bytes into(left.size());
        kernel_of(set, reduction)(left.data(), right.data(), into.data(), count);
        if (first.empty()) first = into;
        EXPECT_EQ(first, into) << name_of(set) << " " << outrigger::name_of(type);
      }
    }
  }
}

TEST(KernelTable, TakesTheLastInstructionSetByItself) {
  const Reduction reduction{ReduceOperation::sum, ElementType::float64};
  EXPECT_EQ(kernel_of(reduction), kernel_of(instruction_sets().back(), reduction));
  const double left[] = {1, 2, 3};
  const double right[] = {10, 20, 30};
  double into[] = {0, 0, 0};
  apply(reduction, std::as_bytes(std::span(left)), std::as_bytes(std::span(right)),
        std::as_writable_bytes(std::span(into)));
  EXPECT_EQ(into[0], 11);
  EXPECT_EQ(into[2], 33);
}

TEST(Reduction, IsDecodedOnlyWhereItIsDefined) {
  for (unsigned operation = 0; operation < 600; ++operation) {
    for (unsigned type = 0; type < 600; ++type) {
      const auto decoded = decode_reduction(operation, type);
      const bool known =
          operation >= 1 && operation <= kReduceOperations.size() && type >= 1 && type <= kElementTypes.size();
      const bool defined =
          known && is_defined(static_cast<ReduceOperation>(operation), row_of(static_cast<ElementType>(type)).kind);
      ASSERT_EQ(decoded.has_value(), defined) << operation << " " << type;
    }
  }
}

}  // namespace
}  // namespace outrigger::reduce
