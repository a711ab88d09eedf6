#include "group/combines.hpp"

#include <outrigger/group.h>

#include <cstring>

namespace outrigger::group {
namespace {

using intranode::Combine;
using intranode::OrderCombine;
using intranode::SumOrder;

class HalfCombine final : public Combine {
 public:
  HalfCombine(const reduce::HalfReduction& reduction, std::size_t members)
      : Combine(2), reduction_(reduction), members_(members) {}
  void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t /*first*/,
             std::size_t elements) const override {
    reduce::half_kernel()(reduction_, contributions.data(), members_, into, elements);
  }

 private:
  reduce::HalfReduction reduction_;
  std::size_t members_;
};

// The sum in the order of ranks, divided.
template <class Float>
class AverageCombine final : public Combine {
 public:
  AverageCombine(const Reduction& sum, const SumOrder& order, std::uint32_t members)
      : Combine(sizeof(Float)), sum_(sum, order), divisor_(static_cast<Float>(members)) {}
  void apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
             std::size_t elements) const override {
    sum_.apply(contributions, into, first, elements);
    auto* results = reinterpret_cast<Float*>(into);
    for (std::size_t i = 0; i < elements; ++i) results[i] /= divisor_;
  }

 private:
  OrderCombine sum_;
  Float divisor_;
};

std::optional<ReduceOperation> arithmetic(int operation) {
  switch (operation) {
    case OUTRIGGER_GROUP_SUM:
    case OUTRIGGER_GROUP_AVERAGE: return ReduceOperation::sum;
    case OUTRIGGER_GROUP_PRODUCT: return ReduceOperation::prod;
    case OUTRIGGER_GROUP_MIN: return ReduceOperation::min;
    case OUTRIGGER_GROUP_MAX: return ReduceOperation::max;
    case OUTRIGGER_GROUP_BAND: return ReduceOperation::band;
    case OUTRIGGER_GROUP_BOR: return ReduceOperation::bor;
    case OUTRIGGER_GROUP_BXOR: return ReduceOperation::bxor;
    default: return std::nullopt;
  }
}

std::optional<ReduceOperation> logical(int operation) {
  switch (operation) {
    case OUTRIGGER_GROUP_SUM:
    case OUTRIGGER_GROUP_MAX:
    case OUTRIGGER_GROUP_BOR: return ReduceOperation::lor;
    case OUTRIGGER_GROUP_PRODUCT:
    case OUTRIGGER_GROUP_MIN:
    case OUTRIGGER_GROUP_BAND: return ReduceOperation::land;
    case OUTRIGGER_GROUP_BXOR: return ReduceOperation::lxor;
    default: return std::nullopt;
  }
}

bool is_half(int type) {
  return type == OUTRIGGER_GROUP_FLOAT16 || type == OUTRIGGER_GROUP_BFLOAT16;
}
reduce::HalfFloat half_of(int type) {
  return type == OUTRIGGER_GROUP_FLOAT16 ? reduce::HalfFloat::float16 : reduce::HalfFloat::bfloat16;
}

// `members`: the divisor of an average.
std::unique_ptr<Combine> half_combine(int type, int operation, const SumOrder& order, std::uint32_t members,
                                      bool takes_floats) {
  const std::optional<ReduceOperation> known = arithmetic(operation);
  if (!known || !is_defined(*known, ElementKind::floating)) return nullptr;
  const reduce::HalfReduction reduction{
      .type = half_of(type),
      .operation = *known,
      .divisor = operation == OUTRIGGER_GROUP_AVERAGE ? static_cast<float>(members) : 1,
      .takes_floats = takes_floats};
  return std::make_unique<HalfCombine>(reduction, order.members());
}

std::unique_ptr<Combine> combine_of(int type, int operation, const SumOrder& order, std::uint32_t members) {
  if (bytes_of_type(type) == 0) return nullptr;
  if (is_half(type)) return half_combine(type, operation, order, members, false);
  const bool is_bool = type == OUTRIGGER_GROUP_BOOL;
  const ElementType element = is_bool ? ElementType::logical8 : static_cast<ElementType>(type);
  const std::optional<ReduceOperation> known = is_bool ? logical(operation) : arithmetic(operation);
  if (!known || !is_defined(*known, row_of(element).kind)) return nullptr;
  const Reduction reduction{*known, element};
  if (operation != OUTRIGGER_GROUP_AVERAGE) return std::make_unique<OrderCombine>(reduction, order);
  if (element == ElementType::float32) return std::make_unique<AverageCombine<float>>(reduction, order, members);
  if (element == ElementType::float64) return std::make_unique<AverageCombine<double>>(reduction, order, members);
  return nullptr;
}

// Types of the header up to float64 have the numbers of ElementType.
static_assert(OUTRIGGER_GROUP_INT8 == static_cast<int>(ElementType::int8) &&
              OUTRIGGER_GROUP_UINT64 == static_cast<int>(ElementType::uint64) &&
              OUTRIGGER_GROUP_FLOAT64 == static_cast<int>(ElementType::float64));

}  // namespace

std::uint64_t bytes_of_type(int type) {
  if (type == OUTRIGGER_GROUP_BOOL) return 1;
  if (type == OUTRIGGER_GROUP_FLOAT16 || type == OUTRIGGER_GROUP_BFLOAT16) return 2;
  if (type < OUTRIGGER_GROUP_INT8 || type > OUTRIGGER_GROUP_FLOAT64) return 0;
  return element_bytes(static_cast<ElementType>(type));
}

std::unique_ptr<Combine> combine_for(int type, int operation, const SumOrder& order) {
  return combine_of(type, operation, order, static_cast<std::uint32_t>(order.members()));
}

NodesCombine::Orders::Orders(const Layout& layout)
    : node(intranode::SumTree::linear(layout.here().size())),
      nodes(intranode::SumTree::linear(layout.nodes())),
      members(layout.size()),
      has_partial_sums(layout.nodes() < layout.size()) {}

std::optional<NodesCombine> NodesCombine::of(int type, int operation, const Orders& orders) {
  const bool widens = is_half(type) && orders.has_partial_sums;
  const int partial_operation = operation == OUTRIGGER_GROUP_AVERAGE ? OUTRIGGER_GROUP_SUM : operation;
  NodesCombine made;
  made.half_ = half_of(type);
  made.within_ = combine_for(widens ? OUTRIGGER_GROUP_FLOAT32 : type, partial_operation, orders.node);
  made.across_ = widens ? half_combine(type, operation, orders.nodes, orders.members, true)
                        : combine_of(type, operation, orders.nodes, orders.members);
  if (made.within_ == nullptr || made.across_ == nullptr) return std::nullopt;
  return made;
}

void NodesCombine::widen(const std::byte* from, std::byte* into, std::size_t elements) const {
  if (elements == 0) return;
  if (!widens()) {
    std::memcpy(into, from, elements * element_bytes());
    return;
  }
  const reduce::HalfReduction as_floats{.type = half_, .gives_floats = true};
  reduce::half_kernel()(as_floats, &from, 1, into, elements);
}

}  // namespace outrigger::group
