#include "intranode/sums/sum_tree.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "intranode/sums/sum_kernels.hpp"
#include "reduce/reduce.hpp"

namespace outrigger::intranode {
namespace {

using Node = SumTree::Node;

constexpr std::size_t kBlockBytes = 2048;
// Blocks in use at a time: the operand that needs more of them is evaluated first, so one for each doubling of members
// and two for a node's right operand and result.
constexpr std::size_t kMostBlocks = std::bit_width(SumTree::kMostMembers) + 1;

// Puts nodes into the order of evaluation.
class Ordering {
 public:
  Ordering(std::size_t members, const std::vector<Node>& nodes)
      : members_(members), nodes_(nodes), needs_(members + nodes.size(), 0) {
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const std::size_t left = needs_[nodes[k].left];
      const std::size_t right = needs_[nodes[k].right];
      needs_[members + k] = left == right ? left + 1 : std::max(left, right);
    }
    if (!nodes.empty()) add(members + nodes.size() - 1);
  }

  std::vector<Node> ordered;
  std::vector<std::uint8_t> places;

 private:
  std::size_t add(std::size_t operand) {
    if (operand < members_) return operand;
    const auto [left_old, right_old] = nodes_[operand - members_];
    const bool right_first = needs_[right_old] > needs_[left_old];
    const std::size_t first = add(right_first ? right_old : left_old);
    const std::size_t second = add(right_first ? left_old : right_old);
    const auto left = static_cast<std::uint8_t>(right_first ? second : first);
    const auto right = static_cast<std::uint8_t>(right_first ? first : second);
    // A kernel may write its left operand, but not its right one.
    set_used(left, false);
    places.push_back(static_cast<std::uint8_t>(std::find(used_.begin(), used_.end(), false) - used_.begin()));
    assert(places.back() < kMostBlocks);
    used_.at(places.back()) = true;
    set_used(right, false);
    ordered.push_back({left, right});
    return members_ + ordered.size() - 1;
  }

  void set_used(std::size_t operand, bool used) {
    if (operand >= members_) used_.at(places[operand - members_]) = used;
  }

  std::size_t members_;
  const std::vector<Node>& nodes_;
  std::vector<std::size_t> needs_;
  std::array<bool, kMostBlocks> used_{};
};

// Combines pairs at the front of `operands`, so that so many are left.
void pair_down_to(std::size_t left, std::size_t members, std::vector<std::uint8_t>& operands,
                  std::vector<Node>& nodes) {
  const std::size_t pairs = operands.size() - left;
  for (std::size_t i = 0; i < pairs; ++i) {
    nodes.push_back({operands[2 * i], operands[2 * i + 1]});
    operands[i] = static_cast<std::uint8_t>(members + nodes.size() - 1);
  }
  const auto front = operands.begin() + static_cast<std::ptrdiff_t>(pairs);
  operands.erase(front, front + static_cast<std::ptrdiff_t>(pairs));
}

std::vector<std::uint8_t> all_of(std::size_t members) {
  assert(members > 0 && members <= SumTree::kMostMembers);
  std::vector<std::uint8_t> operands(members);
  for (std::size_t i = 0; i < members; ++i) operands[i] = static_cast<std::uint8_t>(i);
  return operands;
}

std::vector<Node> balanced_nodes(std::size_t members) {
  std::vector<std::uint8_t> operands = all_of(members);
  std::vector<Node> nodes;
  for (std::size_t left = std::bit_floor(members); left > 0; left /= 2) pair_down_to(left, members, operands, nodes);
  return nodes;
}

std::vector<Node> linear_nodes(std::size_t members) {
  std::vector<std::uint8_t> operands = all_of(members);
  std::vector<Node> nodes;
  while (operands.size() > 1) pair_down_to(operands.size() - 1, members, operands, nodes);
  return nodes;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<SumTree> tree() {
    const std::optional<std::size_t> root = operand(0);
    if (!root || !text_.empty() || (leaves_ == 1 && root != 0)) return std::nullopt;
    // Leaves are numbered before nodes, whose number is known only now.
    std::vector<Node> nodes;
    for (const auto& [left, right] : nodes_) nodes.push_back({final(left), final(right)});
    return SumTree::of(leaves_, std::move(nodes));
  }

 private:
  static constexpr std::size_t kNode = 1000;

  [[nodiscard]] std::uint8_t final(std::size_t operand) const {
    return static_cast<std::uint8_t>(operand < kNode ? operand : leaves_ + operand - kNode);
  }
  bool take(char letter) {
    if (!text_.starts_with(letter)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<std::size_t> operand(std::size_t depth) {
    if (depth > SumTree::kMostMembers) return std::nullopt;
    if (!take('(')) return leaf();
    const auto left = operand(depth + 1);
    if (!left || !take(',')) return std::nullopt;
    const auto right = operand(depth + 1);
    if (!right || !take(')')) return std::nullopt;
    nodes_.emplace_back(*left, *right);
    return kNode + nodes_.size() - 1;
  }
  std::optional<std::size_t> leaf() {
    std::size_t member = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), member);
    if (error != std::errc() || member >= SumTree::kMostMembers || ++leaves_ > SumTree::kMostMembers)
      return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return member;
  }

  std::string_view text_;
  std::size_t leaves_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> nodes_;
};

void append(std::string& text, const SumTree& tree, std::size_t operand) {
  if (operand < tree.members()) {
    text += std::to_string(operand);
    return;
  }
  const Node node = tree.nodes()[operand - tree.members()];
  text += '(';
  append(text, tree, node.left);
  text += ',';
  append(text, tree, node.right);
  text += ')';
}

const FusedKernels& fused_kernels() {
#if defined(__x86_64__)
  static const bool v3 = reduce::instruction_sets().back() >= reduce::InstructionSet::x86_64_v3;
  if (v3) return fused_x86_64_v3();
#endif
  return fused_baseline();
}

// The type of the parts that are added, and how many an element has.
struct Parts {
  ElementType type;
  std::size_t count;
};
constexpr Parts parts_of(ElementType type) {
  switch (type) {
    case ElementType::complex_float: return {ElementType::float32, 2};
    case ElementType::complex_double: return {ElementType::float64, 2};
    case ElementType::complex_long_double: return {ElementType::long_double, 2};
    default: return {type, 1};
  }
}

// How a reduction is evaluated, and the numbers of its kernels in FusedKernels.
enum class Kernels : std::uint8_t { elementwise, long_doubles, fused, extremum };
struct Method {
  Kernels kernels = Kernels::elementwise;
  std::uint8_t type = 0;
  std::uint8_t operation = 0;
  std::uint8_t parts = 1;
  ElementType part = ElementType::byte;
};
constexpr Method find_method(const Reduction& reduction) {
  const auto [part, count] = parts_of(reduction.type);
  const bool greatest = reduction.operation == ReduceOperation::max;
  const bool product = reduction.operation == ReduceOperation::prod;
  const ElementKind kind = row_of(reduction.type).kind;
  Method method{.type = part == ElementType::float64 ? std::uint8_t{1} : std::uint8_t{0},
                .operation = greatest || product ? std::uint8_t{1} : std::uint8_t{0},
                .part = reduction.type};
  if (kind == ElementKind::floating && (greatest || reduction.operation == ReduceOperation::min)) {
    method.kernels = Kernels::extremum;
  } else if (reduction.operation == ReduceOperation::sum ? kind == ElementKind::floating || kind == ElementKind::complex
                                                         : product && kind == ElementKind::floating) {
    method.kernels = part == ElementType::long_double ? Kernels::long_doubles : Kernels::fused;
    method.parts = static_cast<std::uint8_t>(count);
    method.part = part;
  }
  return method;
}
const Method& method_of(const Reduction& reduction) {
  static constexpr auto kMethods = [] {
    std::array<std::array<Method, kElementTypes.size()>, kReduceOperations.size()> methods{};
    for (const ReduceOperationRow& operation : kReduceOperations) {
      for (const ElementTypeRow& type : kElementTypes) {
        methods[index_of(operation.operation)][index_of(type.type)] = find_method({operation.operation, type.type});
      }
    }
    return methods;
  }();
  return kMethods[index_of(reduction.operation)][index_of(reduction.type)];
}

long double long_double_at(const std::byte* from, std::size_t place) {
  long double value;
  std::memcpy(&value, from + place * sizeof(value), sizeof(value));
  return value;
}

// As FusedKernels::extremum.
bool extremum_of_long_doubles(bool greatest, std::span<const std::byte* const> contributions, std::byte* out,
                              std::size_t elements) {
  bool shows = false;
  for (std::size_t t = 0; t < elements; ++t) {
    const std::byte* chosen = contributions[0];
    long double value = long_double_at(chosen, t);
    for (const std::byte* contribution : contributions.subspan(1)) {
      const long double right = long_double_at(contribution, t);
      if (greatest ? right > value : right < value) {
        value = right;
        chosen = contribution;
      } else if (!(greatest ? right < value : right > value)) {
        shows |= value != right || std::signbit(value) != std::signbit(right);
      }
    }
    std::memmove(out + t * sizeof(value), chosen + t * sizeof(value), sizeof(value));  // with its padding
  }
  return shows;
}

bool has_nans(ElementType part, const std::byte* from, std::size_t parts) {
  if (part != ElementType::long_double)
    return fused_kernels().has_nan[part == ElementType::float64 ? 1 : 0](from, parts);
  bool found = false;
  for (std::size_t i = 0; i < parts; ++i) found |= std::isnan(long_double_at(from, i));
  return found;
}

// For a result with NaNs.
Bits bits_with_nans(ElementType part, std::span<const std::byte* const> contributions, std::size_t parts) {
  const auto has = [&](const std::byte* contribution) { return has_nans(part, contribution, parts); };
  return std::ranges::any_of(contributions, has) ? Bits::ask_native : Bits::exact;
}

}  // namespace

SumTree::SumTree(std::size_t members, std::vector<Node> nodes) : members_(members) {
  Ordering ordering(members, nodes);
  nodes_ = std::move(ordering.ordered);
  places_ = std::move(ordering.places);
}

SumTree SumTree::balanced(std::size_t members) {
  return *of(members, balanced_nodes(members));
}

SumTree SumTree::linear(std::size_t members) {
  return *of(members, linear_nodes(members));
}

std::optional<SumTree> SumTree::of(std::size_t members, std::vector<Node> nodes) {
  if (members == 0 || members > kMostMembers || nodes.size() != members - 1) return std::nullopt;
  std::array<bool, 2 * kMostMembers> used{};
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    for (const std::size_t operand : {nodes[k].left, nodes[k].right}) {
      if (operand >= members + k || std::exchange(used.at(operand), true)) return std::nullopt;
    }
  }
  SumTree tree(members, std::move(nodes));
  if (tree.nodes_ == Ordering(members, balanced_nodes(members)).ordered) {
    tree.shape_ = Shape::balanced;
  } else if (tree.nodes_ == Ordering(members, linear_nodes(members)).ordered) {
    tree.shape_ = Shape::linear;
  }
  return tree;
}

std::optional<SumTree> SumTree::parse(std::string_view text) {
  return Parser(text).tree();
}

std::string SumTree::text() const {
  std::string text;
  append(text, *this, members_ + nodes_.size() - 1);
  return text;
}

bool is_evaluated(const Reduction& reduction) {
  return method_of(reduction).kernels != Kernels::elementwise;
}

bool has_nans(const Reduction& reduction, const std::byte* vector, std::size_t elements) {
  const Method& method = method_of(reduction);
  return has_nans(method.part, vector, elements * method.parts);
}

Bits evaluate(const SumTree& tree, const Reduction& reduction, std::span<const std::byte* const> contributions,
              std::byte* out, std::size_t elements) {
  const std::size_t members = tree.members_;
  const Method& method = method_of(reduction);
  const bool is_fused = method.kernels == Kernels::fused && members - 2 <= FusedKernels::kMostMembers - 2 &&
                        tree.shape_ != SumTree::Shape::other;
  if (!is_fused) return tree.evaluate_otherwise(reduction, contributions, out, elements);
  const std::size_t shape = tree.shape_ == SumTree::Shape::linear ? 1 : 0;
  const auto& kernels = fused_kernels().kernels[method.type][method.operation][shape];
  const std::size_t parts = elements * method.parts;
  if (!kernels[members](contributions.data(), out, parts)) [[likely]]
    return Bits::exact;
  return bits_with_nans(method.part, contributions, parts);
}

Bits SumTree::evaluate_otherwise(const Reduction& reduction, std::span<const std::byte* const> contributions,
                                 std::byte* out, std::size_t elements) const {
  assert(contributions.size() == members_);
  if (members_ == 1) {  // nothing is added: natively a copy, too
    if (out != contributions[0]) std::memcpy(out, contributions[0], elements * reduction.element_bytes());
    return Bits::exact;
  }
  const Method& method = method_of(reduction);
  const std::size_t parts = elements * method.parts;
  if (method.kernels != Kernels::extremum)
    return evaluate_blocks({reduction.operation, method.part}, contributions, out, parts);
  const bool shows =
      method.part == ElementType::long_double
          ? extremum_of_long_doubles(method.operation == 1, contributions, out, parts)
          : fused_kernels().extremum[method.type][method.operation](contributions.data(), members_, out, parts);
  return shows ? Bits::ask_native : Bits::exact;
}

Bits SumTree::evaluate_blocks(const Reduction& reduction, std::span<const std::byte* const> contributions,
                              std::byte* out, std::size_t elements) const {
  const reduce::Kernel kernel = reduce::kernel_of(reduction);
  assert(kernel != nullptr && "the operation is defined for the type");
  const bool may_have_nans = is_evaluated(reduction);
  const std::size_t element_bytes = reduction.element_bytes();
  if (members_ == 2 && contributions[nodes_[0].right] != out && !may_have_nans) {
    kernel(contributions[nodes_[0].left], contributions[nodes_[0].right], out, elements);
    return Bits::exact;
  }
  alignas(64) std::array<std::array<std::byte, kBlockBytes>, kMostBlocks> blocks;
  bool nan = false;
  for (std::size_t at = 0; at < elements * element_bytes; at += kBlockBytes) {
    const std::size_t size = std::min(kBlockBytes, elements * element_bytes - at);
    const auto from = [&](std::size_t operand) -> const std::byte* {
      return operand < members_ ? contributions[operand] + at : blocks[places_[operand - members_]].data();
    };
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const auto [left, right] = nodes_[k];
      const bool last = k + 1 == nodes_.size();
      // A kernel may overwrite its left operand only.
      std::byte* const into = last && from(right) != out + at ? out + at : blocks[places_[k]].data();
      kernel(from(left), from(right), into, size / element_bytes);
      if (last && into != out + at) std::memcpy(out + at, into, size);
    }
    if (may_have_nans) nan |= has_nans(reduction.type, out + at, size / element_bytes);
  }
  return nan ? bits_with_nans(reduction.type, contributions, elements) : Bits::exact;
}

}  // namespace outrigger::intranode
