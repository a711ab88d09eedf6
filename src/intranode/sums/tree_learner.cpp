#include "intranode/sums/tree_learner.hpp"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstring>
#include <span>
#include <vector>

#include "intranode/sums/random_contributions.hpp"
#include "intranode/sums/tree_probes.hpp"

namespace outrigger::intranode {
namespace {

constexpr std::size_t kSweeps = 2;
// Calls of a sweep, where vectors hold more than one probe.
constexpr std::size_t kMostRounds = 128;
constexpr std::size_t kVectors = 8;
// Elements until pseudo-random numbers repeat.
constexpr std::size_t kPeriod = 1021;

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

// In the parts of which complex numbers have two.
Learning in_parts(Learning learning) {
  const std::size_t parts = is_complex(learning.reduction) ? 2 : 1;
  learning.reduction.type = part_of(learning.reduction.type);
  learning.elements *= parts;
  learning.first *= parts;
  learning.returned *= parts;
  return learning;
}

bool is_supported(const Learning& learning) {
  return is_evaluated(learning.reduction) && learning.elements > 0 && learning.members > 0 &&
         learning.members <= SumTree::kMostMembers;
}

std::size_t probes_of(const Learning& learning) {
  const std::size_t pairs = Pairs::count_of(learning.members);
  switch (learning.reduction.operation) {
    case ReduceOperation::sum: return pairs;
    case ReduceOperation::prod: return 2 * pairs;
    default: return 3 * pairs;
  }
}

// Element t has probe (t + round * stride) % probes, so all are in the vectors of one sweep.
struct Sweep {
  std::size_t rounds;
  std::size_t stride;
};
Sweep sweep_of(const Learning& parts) {
  const std::size_t probes = probes_of(parts);
  if (probes == 0) return {0, 1};
  if (!parts.whole) return {probes, 1};
  const std::size_t rounds = std::max((probes + parts.elements - 1) / parts.elements, std::min(probes, kMostRounds));
  return {rounds, (probes + rounds - 1) / rounds};
}

// The last six bytes of an x87 number are padding.
template <class T>
constexpr std::size_t kValueBytes = std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);

template <class T>
class Learner {
 public:
  // In parts.
  Learner(const NativeReduction& native, const Learning& learning)
      : native_(native), learning_(learning), sent_(learning.elements), got_(learning.elements) {}

  template <class Probes>
  Learned learn(const Probes& probes) {
    std::vector<std::uint8_t> observed(probes.count(), kNothing);
    SumRefusal refusal = SumRefusal::none;
    const Sweep sweep = sweep_of(learning_);
    for (std::size_t call = 0; call < kSweeps * sweep.rounds; ++call) {
      const bool turned = call >= sweep.rounds;
      const std::size_t start = call % sweep.rounds * sweep.stride;
      for (std::size_t t = 0; t < sent_.size(); ++t)
        sent_[t] = probes.value((t + start) % probes.count(), learning_.member, turned);
      if (!reduce()) return {std::nullopt, SumRefusal::native_failed};
      if (refusal == SumRefusal::none) refusal = observe(probes, start, turned, observed);
    }
    Learned learned{std::nullopt, refusal};
    if (refusal == SumRefusal::none && sees_something()) {
      learned.tree = probes.tree(observed);
      if (!learned.tree) learned.refusal = SumRefusal::no_tree;
    }
    const SumRefusal verified = verify(learned.tree ? &*learned.tree : nullptr, 0, kVectors);
    if (verified == SumRefusal::native_failed || learned.refusal == SumRefusal::none) learned.refusal = verified;
    if (learned.refusal != SumRefusal::none) learned.tree.reset();
    return learned;
  }

  // nullptr: nothing to compare with.
  SumRefusal verify(const SumTree* tree, std::uint64_t first_vector, std::size_t vectors) {
    SumRefusal refusal = SumRefusal::none;
    for (std::uint64_t vector = first_vector; vector < first_vector + vectors; ++vector) {
      const RandomContributions<T> random(learning_.reduction.operation, vector);
      fill(random, learning_.member, sent_);
      if (!reduce()) return SumRefusal::native_failed;
      if (tree == nullptr || !sees_something() || refusal != SumRefusal::none) continue;
      if (!equals(expected(*tree, random))) refusal = SumRefusal::other_bits;
    }
    return refusal;
  }

 private:
  [[nodiscard]] bool sees_something() const { return learning_.returned > 0 && learning_.summed > 0; }

  bool reduce() {
    return native_(reinterpret_cast<const std::byte*>(sent_.data()), reinterpret_cast<std::byte*>(got_.data()));
  }

  template <class Probes>
  SumRefusal observe(const Probes& probes, std::size_t start, bool turned, std::vector<std::uint8_t>& observed) const {
    for (std::size_t k = 0; k < learning_.returned; ++k) {
      const std::size_t probe = (learning_.first + k + start) % probes.count();
      if (!probes.concerns(probe)) continue;
      const std::uint8_t seen = probes.observe(probe, got_[k], turned);
      if (seen == kNothing) return SumRefusal::no_tree;
      if (observed[probe] == kNothing) observed[probe] = seen;
      if (observed[probe] != seen) return SumRefusal::varies;
    }
    return SumRefusal::none;
  }

  static void fill(const RandomContributions<T>& random, std::size_t member, std::span<T> values) {
    for (std::size_t t = 0; t < values.size(); ++t)
      values[t] = t < kPeriod ? random.value(t, member) : values[t - kPeriod];
  }

  // By the tree, one period.
  std::vector<T> expected(const SumTree& tree, const RandomContributions<T>& random) const {
    const std::size_t elements = std::min(kPeriod, learning_.elements);
    std::vector<T> contributions(learning_.summed * elements);
    std::vector<const std::byte*> places;
    for (std::size_t member = 0; member < learning_.summed; ++member) {
      const std::span values = std::span(contributions).subspan(member * elements, elements);
      fill(random, member, values);
      places.push_back(reinterpret_cast<const std::byte*>(values.data()));
    }
    std::vector<T> result(elements);
    static_cast<void>(
        evaluate(tree, learning_.reduction, places, reinterpret_cast<std::byte*>(result.data()), elements));
    return result;
  }

  [[nodiscard]] bool equals(const std::vector<T>& period) const {
    // A copy keeps the payload of its NaN.
    const bool any_nan = learning_.summed > 1 && (learning_.reduction.operation == ReduceOperation::sum ||
                                                  learning_.reduction.operation == ReduceOperation::prod);
    for (std::size_t k = 0; k < learning_.returned; ++k) {
      const T& ours = period[(learning_.first + k) % kPeriod];
      if (std::memcmp(&ours, &got_[k], kValueBytes<T>) == 0) continue;
      if (!any_nan || !std::isnan(ours) || !std::isnan(got_[k])) return false;
    }
    return true;
  }

  const NativeReduction& native_;
  const Learning& learning_;
  std::vector<T> sent_;
  std::vector<T> got_;
};

template <class T>
Learned learn_parts(const NativeReduction& native, const Learning& parts) {
  Learner<T> learner(native, parts);
  switch (parts.reduction.operation) {
    case ReduceOperation::sum: return learner.learn(SumProbes<T>(parts.members, parts.summed));
    case ReduceOperation::prod: return learner.learn(ProductProbes<T>(parts.members, parts.summed));
    default:
      return learner.learn(
          OrderProbes<T>(parts.members, parts.summed, parts.reduction.operation == ReduceOperation::max));
  }
}

}  // namespace

std::string_view name_of(SumRefusal refusal) {
  static constexpr std::array<std::string_view, 6> kNames{"none", "unsupported", "failed", "varies", "tree", "bits"};
  return kNames.at(static_cast<std::size_t>(refusal));
}

std::size_t learning_calls(const Learning& learning) {
  return is_supported(learning) ? kSweeps * sweep_of(in_parts(learning)).rounds + kVectors : 0;
}

Learned learn(const NativeReduction& native, const Learning& learning) {
  if (!is_supported(learning)) return {std::nullopt, SumRefusal::unsupported};
  const NoTraps no_traps;
  const Learning parts = in_parts(learning);
  switch (parts.reduction.type) {
    case ElementType::float32: return learn_parts<float>(native, parts);
    case ElementType::float64: return learn_parts<double>(native, parts);
    default: return learn_parts<long double>(native, parts);
  }
}

SumRefusal verify(const NativeReduction& native, const Learning& learning, const SumTree& tree,
                  std::uint64_t first_vector, std::size_t vectors) {
  if (!is_supported(learning)) return SumRefusal::unsupported;
  const NoTraps no_traps;
  const Learning parts = in_parts(learning);
  // A tree of a file may be of other members: the calls are made all the same.
  const bool fits = tree.members() == learning.summed;
  const SumTree* const compared = fits ? &tree : nullptr;
  SumRefusal refusal = SumRefusal::none;
  switch (parts.reduction.type) {
    case ElementType::float32: refusal = Learner<float>(native, parts).verify(compared, first_vector, vectors); break;
    case ElementType::float64: refusal = Learner<double>(native, parts).verify(compared, first_vector, vectors); break;
    default: refusal = Learner<long double>(native, parts).verify(compared, first_vector, vectors);
  }
  const bool sees = learning.returned > 0 && learning.summed > 0;
  return refusal == SumRefusal::none && sees && !fits ? SumRefusal::other_bits : refusal;
}

}  // namespace outrigger::intranode
