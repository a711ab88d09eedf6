#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {

Reducing reducing_of(const Job& job, MPI_Op operation, MPI_Datatype type) {
  Reducing reducing;
  reducing.shape = shape_of(job, type);
  reducing.reduction = reduction_of(operation, type, reducing.shape);
  if (!reducing.reduction) {
    reducing.native = NativeReason::other_reduction;
    return reducing;
  }
  reducing.shape = shape_of(*reducing.reduction);
  // Else a program's results would depend on what is measured, from run to run and within one.
  if (rounds(*reducing.reduction)) reducing.native = NativeReason::rounding;
  return reducing;
}

Operation& new_reduction(Collective collective, const Offload& offload, const Reducing& reducing, MPI_Datatype type,
                         const ReducedSides& sides) {
  Operation& operation = new_operation(collective, offload, sides.in_place);
  operation.asked.reduction = reducing.reduction;
  operation.source_overwritten = sides.in_place;
  const std::uint32_t size = offload.comm->size();
  operation.send.set_shared(sides.in_place ? sides.to : sides.from, sides.sent, type, reducing.shape, size);
  operation.receive.set_shared(sides.to, sides.received, type, reducing.shape, size);
  operation.asked.part_offset_bytes = bytes_in(sides.first, reducing.shape);
  operation.asked.root = sides.root;
  return operation;
}

}  // namespace outrigger::mpi
