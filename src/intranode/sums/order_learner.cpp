#include "intranode/sums/order_learner.hpp"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "intranode/sums/order_probes.hpp"
#include "intranode/sums/random_contributions.hpp"

namespace outrigger::intranode {
namespace {

constexpr std::size_t kSweeps = 2;
// Calls of a sweep, where vectors hold more than one probe.
constexpr std::size_t kMostRounds = 128;
constexpr std::size_t kVectors = 8;
// Elements, of all vectors together, where they alone must show that the MPI adds as C does.
constexpr std::size_t kAloneElements = 24;
// Measured by tests/mpi/programs/sum_orders.cpp (Open MPI 4.1, 2 and 4 ranks, 1 to 65,536 elements). A call of a sweep
// takes the time of 2 to 6 calls of the program, one with random numbers that of 2, and of their computation.
constexpr std::uint64_t kCostOfSweepCall = 4;
constexpr std::uint64_t kCostOfVector = 2;
constexpr std::uint64_t kBytesOfNumber = 64;
constexpr std::uint64_t kBytesOfShortCall = 256;
// Elements until pseudo-random numbers repeat.
constexpr std::size_t kPeriod = 127;

// Probes overflow and make NaNs, and the program may trap these.
class NoTraps {
 public:
  NoTraps() { std::feholdexcept(&before_); }
  ~NoTraps() { std::fesetenv(&before_); }
  NoTraps(const NoTraps&) = delete;
  NoTraps& operator=(const NoTraps&) = delete;

 private:
  std::fenv_t before_{};
};

bool is_complex(const Reduction& reduction) {
  return row_of(reduction.type).kind == ElementKind::complex;
}

ElementType part_of(ElementType type) {
  switch (type) {
    case ElementType::complex_float: return ElementType::float32;
    case ElementType::complex_double: return ElementType::float64;
    case ElementType::complex_long_double: return ElementType::long_double;
    default: return type;
  }
}

// Calls `work` with a number of the type of a part.
template <class Work>
auto with_number(ElementType part, const Work& work) {
  switch (part) {
    case ElementType::float32: return work(float{});
    case ElementType::float64: return work(double{});
    default: return work(static_cast<long double>(0));
  }
}

// In the parts of which complex numbers have two.
Learning in_parts(Learning learning) {
  const std::size_t parts = is_complex(learning.reduction) ? 2 : 1;
  learning.reduction.type = part_of(learning.reduction.type);
  learning.elements *= parts;
  learning.first *= parts;
  learning.returned *= parts;
  return learning;
}

// Two contributions have one tree: only vectors can show that the MPI does something else.
bool has_one_tree(const Learning& learning) {
  return learning.members <= 2;
}

std::size_t vectors_of(const Learning& learning) {
  if (!has_one_tree(learning)) return kVectors;
  return std::max(kVectors, kAloneElements / learning.elements);
}

std::size_t probes_of(const Learning& learning) {
  if (has_one_tree(learning)) return 0;
  return Pairs::count_of(learning.members) * (learning.reduction.operation == ReduceOperation::prod ? 2 : 1);
}

// Element t has probe (t + round * stride) % probes, so all are in the vectors of one sweep.
struct Sweep {
  std::size_t rounds;
  std::size_t stride;
  bool full;  // every element has every probe
};
Sweep sweep_of(const Learning& parts) {
  const std::size_t probes = probes_of(parts);
  if (probes == 0) return {0, 1, true};
  if (!parts.whole) return {probes, 1, true};
  const std::size_t rounds = std::max((probes + parts.elements - 1) / parts.elements, std::min(probes, kMostRounds));
  return {rounds, (probes + rounds - 1) / rounds, rounds == probes};
}

// The last six bytes of an x87 number are padding.
template <class T>
constexpr std::size_t kValueBytes = std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);

// Each value of one gives another of the other, without patterns.
std::uint64_t scrambled(std::uint64_t bits) {
  bits = (bits ^ (bits >> 33)) * 0xFF51AFD7ED558CCDULL;
  bits = (bits ^ (bits >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return bits ^ (bits >> 33);
}

template <class T>
class Learner {
 public:
  // In parts of elements.
  Learner(const NativeReduction& native, const Learning& learning)
      : native_(native), learning_(learning), sent_(learning.elements), got_(learning.elements) {}

  template <class Probes>
  Learned learn(const Probes& probes) {
    const Sweep sweep = sweep_of(learning_);
    SumRefusal refusal = SumRefusal::none;
    if (sweep.full) signs_.assign(learning_.returned, 0);
    ends_.assign(1, learning_.returned);
    observed_.assign(probes.count(), kNothing);
    for (std::size_t call = 0; call < kSweeps * sweep.rounds; ++call) {
      const bool turned = call >= sweep.rounds;
      if (call == sweep.rounds && sweep.full && refusal == SumRefusal::none) refusal = find_parts(probes.count());
      const std::size_t start = call % sweep.rounds * sweep.stride;
      send([&](std::size_t t) { return probes.value((t + start) % probes.count(), learning_.member, turned); },
           probes.count());
      if (!reduce()) return {std::nullopt, SumRefusal::native_failed};
      if (refusal == SumRefusal::none)
        refusal = sweep.full && !turned ? sign(probes, start) : observe(probes, start, turned);
    }
    Learned learned{std::nullopt, refusal};
    if (refusal == SumRefusal::none && sees_something()) learned = order_of(probes);
    const SumRefusal verified = verify(learned.order ? &*learned.order : nullptr, 0, vectors_of(learning_));
    if (verified == SumRefusal::native_failed || learned.refusal == SumRefusal::none) learned.refusal = verified;
    if (learned.refusal != SumRefusal::none) learned.order.reset();
    return learned;
  }

  // nullptr: nothing to compare with.
  SumRefusal verify(const SumOrder* order, std::uint64_t first_vector, std::size_t vectors) {
    SumRefusal refusal = SumRefusal::none;
    for (std::uint64_t vector = first_vector; vector < first_vector + vectors; ++vector) {
      const RandomContributions<T> random(learning_.reduction.operation, vector);
      send([&](std::size_t t) { return random.value(t, learning_.member); }, kPeriod);
      if (!reduce()) return SumRefusal::native_failed;
      if (order == nullptr || !sees_something() || refusal != SumRefusal::none) continue;
      if (!equals(*order, random)) refusal = SumRefusal::other_bits;
    }
    return refusal;
  }

  SumRefusal compare(const NativeReduction& other, std::uint64_t first_vector, std::size_t vectors) {
    SumRefusal refusal = SumRefusal::none;
    std::vector<T> others(sent_.size());
    for (std::uint64_t vector = first_vector; vector < first_vector + vectors; ++vector) {
      const RandomContributions<T> random(learning_.reduction.operation, vector);
      send([&](std::size_t t) { return random.value(t, learning_.member); }, kPeriod);
      if (!reduce() || !other(bytes_of(sent_), bytes_of(others))) return SumRefusal::native_failed;
      for (std::size_t k = 0; k < others.size(); ++k) {
        const bool same = equal(std::span(others).subspan(k, 1), std::span(got_).subspan(k, 1));
        if (!same && !std::isnan(others[k])) refusal = SumRefusal::other_bits;
      }
    }
    return refusal;
  }

 private:
  static std::byte* bytes_of(std::vector<T>& vector) { return reinterpret_cast<std::byte*>(vector.data()); }
  [[nodiscard]] bool sees_something() const { return learning_.returned > 0 && learning_.summed > 0; }

  bool reduce() { return native_(bytes_of(sent_), bytes_of(got_)); }

  template <class Value>
  void send(const Value& value, std::size_t period) {
    const std::size_t elements = std::min(period, sent_.size());
    for (std::size_t t = 0; t < elements; ++t) sent_[t] = value(t);
    for (std::size_t done = elements; done < sent_.size();) {
      const std::size_t more = std::min(done, sent_.size() - done);
      std::memcpy(&sent_[done], sent_.data(), more * sizeof(T));
      done += more;
    }
  }

  // First sweep: elements of the same sizes come to the same signature.
  template <class Probes>
  SumRefusal sign(const Probes& probes, std::size_t start) {
    std::size_t probe = (learning_.first + start) % probes.count();
    for (std::size_t k = 0; k < learning_.returned; ++k) {
      if (probes.concerns(probe)) {
        const std::uint8_t seen = probes.observe(probe, got_[k], false);
        if (seen == kNothing) return SumRefusal::no_tree;
        signs_[k] += scrambled(probe << 8 | seen);
      }
      if (++probe == probes.count()) probe = 0;
    }
    return SumRefusal::none;
  }

  SumRefusal find_parts(std::size_t probes) {
    ends_.clear();
    for (std::size_t k = 1; k < learning_.returned; ++k) {
      if (signs_[k] != signs_[k - 1]) ends_.push_back(k);
      if (ends_.size() == SumOrder::kMostParts) return SumRefusal::varies;
    }
    ends_.push_back(learning_.returned);
    observed_.assign(ends_.size() * probes, kNothing);
    return SumRefusal::none;
  }

  template <class Probes>
  SumRefusal observe(const Probes& probes, std::size_t start, bool turned) {
    std::size_t probe = (learning_.first + start) % probes.count();
    std::size_t part = 0;
    for (std::size_t k = 0; k < learning_.returned; ++k) {
      if (k == ends_[part]) ++part;
      if (probes.concerns(probe)) {
        const std::uint8_t seen = probes.observe(probe, got_[k], turned);
        if (seen == kNothing) return SumRefusal::no_tree;
        std::uint8_t& before = observed_[part * probes.count() + probe];
        if (before == kNothing) before = seen;
        if (before != seen) return SumRefusal::varies;
      }
      if (++probe == probes.count()) probe = 0;
    }
    return SumRefusal::none;
  }

  template <class Probes>
  Learned order_of(const Probes& probes) const {
    if (has_one_tree(learning_)) return {SumOrder(SumTree::linear(learning_.summed)), SumRefusal::none};
    std::vector<SumOrder::Part> parts;
    for (std::size_t part = 0; part < ends_.size(); ++part) {
      const std::span observed = std::span(observed_).subspan(part * probes.count(), probes.count());
      std::optional<SumTree> tree = probes.tree(observed);
      if (!tree || (sweep_of(learning_).full && !is_signed(probes, observed, ends_[part] - 1)))
        return {std::nullopt, tree ? SumRefusal::varies : SumRefusal::no_tree};
      const bool last = part + 1 == ends_.size();
      parts.push_back({last ? SumOrder::kRest : learning_.first + ends_[part], *std::move(tree)});
    }
    return {SumOrder::of(std::move(parts)), SumRefusal::none};
  }

  // Were both sweeps the same?
  template <class Probes>
  [[nodiscard]] bool is_signed(const Probes& probes, std::span<const std::uint8_t> observed, std::size_t k) const {
    std::uint64_t sum = 0;
    for (std::size_t probe = 0; probe < probes.count(); ++probe) {
      if (probes.concerns(probe)) sum += scrambled(probe << 8 | observed[probe]);
    }
    return sum == signs_[k];
  }

  // In the order of a tree, one period.
  std::vector<T> expected(const SumTree& tree, const RandomContributions<T>& random) const {
    const std::size_t elements = std::min(kPeriod, learning_.elements);
    std::vector<T> contributions(learning_.summed * elements);
    std::vector<const std::byte*> places;
    for (std::size_t member = 0; member < learning_.summed; ++member) {
      T* const values = contributions.data() + member * elements;
      for (std::size_t t = 0; t < elements; ++t) values[t] = random.value(t, member);
      places.push_back(reinterpret_cast<const std::byte*>(values));
    }
    std::vector<T> result(elements);
    static_cast<void>(
        evaluate(tree, learning_.reduction, places, reinterpret_cast<std::byte*>(result.data()), elements));
    return result;
  }

  [[nodiscard]] bool equals(const SumOrder& order, const RandomContributions<T>& random) const {
    std::size_t k = 0;
    for (const SumOrder::Part& part : order.parts()) {
      if (k == learning_.returned || learning_.first + k >= part.end) continue;
      const std::vector<T> period = expected(part.tree, random);
      const std::size_t end = std::min<std::uint64_t>(learning_.returned, part.end - learning_.first);
      while (k < end) {
        const std::size_t at = (learning_.first + k) % kPeriod;
        const std::size_t elements = std::min(kPeriod - at, end - k);
        if (!equal(std::span(period).subspan(at, elements), std::span(got_).subspan(k, elements))) return false;
        k += elements;
      }
    }
    return true;
  }

  // Bits, not values: signed zeros and NaNs differ. No contribution is a NaN, so operations have made all of them.
  [[nodiscard]] static bool equal(std::span<const T> ours, std::span<const T> natives) {
    if constexpr (kValueBytes<T> == sizeof(T)) {
      return std::memcmp(ours.data(), natives.data(), ours.size_bytes()) == 0;
    } else {
      return std::ranges::equal(
          ours, natives, [](const T& one, const T& other) { return std::memcmp(&one, &other, kValueBytes<T>) == 0; });
    }
  }

  const NativeReduction& native_;
  const Learning& learning_;
  std::vector<T> sent_;
  std::vector<T> got_;
  std::vector<std::uint64_t> signs_;    // by element
  std::vector<std::size_t> ends_;       // of the parts
  std::vector<std::uint8_t> observed_;  // by part and probe
};

template <class T>
Learned learn_parts(const NativeReduction& native, const Learning& parts) {
  Learner<T> learner(native, parts);
  if (parts.reduction.operation == ReduceOperation::sum)
    return learner.learn(SumProbes<T>(parts.members, parts.summed));
  return learner.learn(ProductProbes<T>(parts.members, parts.summed));
}

// Both parts of a complex number are in one part of the vector. Nothing: they are not.
std::optional<SumOrder> per_element(const SumOrder& order, std::uint64_t parts_of_element) {
  std::vector<SumOrder::Part> parts = order.parts();
  for (SumOrder::Part& part : parts) {
    if (part.end == SumOrder::kRest) continue;
    if (part.end % parts_of_element != 0) return std::nullopt;
    part.end /= parts_of_element;
  }
  return SumOrder::of(std::move(parts));
}

SumOrder per_part(const SumOrder& order, std::uint64_t parts_of_element) {
  std::vector<SumOrder::Part> parts = order.parts();
  for (SumOrder::Part& part : parts) {
    if (part.end != SumOrder::kRest) part.end *= parts_of_element;
  }
  return SumOrder::of(std::move(parts)).value_or(order);
}

std::vector<std::byte> vector_of(const Reduction& reduction, std::size_t elements, double number) {
  return with_number(part_of(reduction.type), [&]<class T>(T /*type*/) {
    const std::vector<T> numbers(elements * reduction.element_bytes() / sizeof(T), static_cast<T>(number));
    const auto bytes = std::as_bytes(std::span(numbers));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
}

}  // namespace

std::string_view name_of(SumRefusal refusal) {
  static constexpr std::array<std::string_view, 7> kNames{"none", "unsupported", "failed", "varies",
                                                          "tree", "bits",        "nans"};
  return kNames.at(static_cast<std::size_t>(refusal));
}

bool is_supported(const Learning& learning) {
  return is_evaluated(learning.reduction) && learning.elements > 0 && learning.members > 0 &&
         learning.members <= SumTree::kMostMembers;
}

std::size_t learning_calls(const Learning& learning) {
  if (!is_supported(learning) || any_order(learning.reduction)) return 0;
  const Learning parts = in_parts(learning);
  return kSweeps * sweep_of(parts).rounds + vectors_of(parts);
}

std::uint64_t time_of_call(const Learning& learning) {
  return kBytesOfShortCall + learning.elements * learning.reduction.element_bytes();
}

std::uint64_t learning_time(const Learning& learning) {
  if (learning_calls(learning) == 0) return 0;
  const Learning parts = in_parts(learning);
  const std::uint64_t vectors = vectors_of(parts);
  const std::uint64_t numbers = std::min(kPeriod, parts.elements) * (parts.members + 1);
  const std::uint64_t calls =
      kCostOfSweepCall * kSweeps * sweep_of(parts).rounds + kCostOfVector * (vectors + learning.more_calls);
  return calls * time_of_call(learning) + vectors * numbers * kBytesOfNumber;
}

Learned learn(const NativeReduction& native, const Learning& learning) {
  if (!is_supported(learning)) return {std::nullopt, SumRefusal::unsupported};
  const SumOrder without_result(SumTree::linear(std::max<std::size_t>(learning.summed, 1)));
  if (any_order(learning.reduction)) return {without_result, SumRefusal::none};
  const NoTraps no_traps;
  const Learning parts = in_parts(learning);
  Learned learned =
      with_number(parts.reduction.type, [&]<class T>(T /*type*/) { return learn_parts<T>(native, parts); });
  if (learned.order && is_complex(learning.reduction)) {
    learned.order = per_element(*learned.order, 2);
    if (!learned.order) learned.refusal = SumRefusal::varies;
  }
  if (learned.refusal == SumRefusal::none && !learned.order) learned.order = without_result;
  return learned;
}

SumRefusal verify(const NativeReduction& native, const Learning& learning, const SumOrder& order,
                  std::uint64_t first_vector, std::size_t vectors) {
  if (!is_supported(learning)) return SumRefusal::unsupported;
  if (any_order(learning.reduction)) return SumRefusal::none;
  const NoTraps no_traps;
  const Learning parts = in_parts(learning);
  // The order of a file may be of other members: the calls are made all the same.
  const bool fits = order.members() == learning.summed;
  const SumOrder scaled = per_part(order, is_complex(learning.reduction) ? 2 : 1);
  const SumOrder* const compared = fits ? &scaled : nullptr;
  const SumRefusal refusal = with_number(parts.reduction.type, [&]<class T>(T /*type*/) {
    return Learner<T>(native, parts).verify(compared, first_vector, vectors);
  });
  return refusal == SumRefusal::none && learning.summed > 0 && !fits ? SumRefusal::other_bits : refusal;
}

SumRefusal compare(const NativeReduction& native, const NativeReduction& other, const Learning& learning,
                   std::uint64_t first_vector, std::size_t vectors) {
  const NoTraps no_traps;
  const Learning parts = in_parts(learning);
  return with_number(parts.reduction.type, [&]<class T>(T /*type*/) {
    return Learner<T>(native, parts).compare(other, first_vector, vectors);
  });
}

std::vector<std::byte> neutral_vector(const Reduction& reduction, std::size_t elements) {
  return vector_of(reduction, elements, reduction.operation == ReduceOperation::sum ? -0.0 : 1.0);
}

std::vector<std::byte> marked_element(const Reduction& reduction, bool marked) {
  const double neutral = reduction.operation == ReduceOperation::sum ? 0.0 : 1.0;
  return vector_of(reduction, 1, marked ? neutral + 1 : neutral);
}

bool is_marked(const Reduction& reduction, std::span<const std::byte> element) {
  return with_number(part_of(reduction.type), [&]<class T>(T number) {
    std::memcpy(&number, element.data(), sizeof number);
    return number != (reduction.operation == ReduceOperation::sum ? T{0} : T{1});
  });
}

}  // namespace outrigger::intranode
