#include "mpi/intranode/native_bits.hpp"

#include "intranode/sums/sum_tree.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {
namespace {

[[maybe_unused]] bool is_short(ElementType type) {
  return type == ElementType::int8 || type == ElementType::int16 || type == ElementType::uint8 ||
         type == ElementType::uint16;
}

[[maybe_unused]] bool is_unsigned(ElementType type) {
  return type == ElementType::uint8 || type == ElementType::uint16 || type == ElementType::uint32 ||
         type == ElementType::uint64;
}

// Open MPI 4.1 adds short integers by instructions that saturate, where vectors are long enough for these.
bool may_saturate([[maybe_unused]] const Reduction& reduction) {
#if defined(OUTRIGGER_ABI_OPENMPI)
  return reduction.operation == ReduceOperation::sum && is_short(reduction.type);
#else
  return false;
#endif
}

// MPICH 4.0 compares unsigned integers as signed ones.
bool may_lose_sign([[maybe_unused]] const Reduction& reduction) {
#if defined(OUTRIGGER_ABI_OPENMPI)
  return false;
#else
  const bool compares = reduction.operation == ReduceOperation::max || reduction.operation == ReduceOperation::min;
  return compares && is_unsigned(reduction.type);
#endif
}

// MPICH writes the value that its Fortran compiler has for .TRUE., which may be -1. C's _Bool has one byte.
bool may_be_fortran_true([[maybe_unused]] const Reduction& reduction) {
#if defined(OUTRIGGER_ABI_OPENMPI)
  return false;
#else
  return row_of(reduction.type).kind == ElementKind::logical && reduction.type != ElementType::logical8;
#endif
}

}  // namespace

bool has_native_bits(const Reduction& reduction) {
  return is_exact(reduction) && !may_saturate(reduction) && !may_lose_sign(reduction) &&
         !may_be_fortran_true(reduction);
}

RankOrder order_for(const Reduction& reduction, Config::Sums sums) {
  if (has_native_bits(reduction) || (sums == Config::Sums::any && rounds(reduction))) return RankOrder::ranks;
  return intranode::is_evaluated(reduction) ? RankOrder::natives : RankOrder::none;
}

}  // namespace outrigger::mpi
