// Offloading of MPI_Ialltoall and MPI_Ialltoallv, for 32-bit and large counts alike.
#pragma once

#include "mpi/arguments.hpp"
#include "mpi/job.hpp"
#include "mpi/post.hpp"
#include "mpi/report.hpp"

namespace outrigger::mpi {

template <class Count>
struct AlltoallArguments {
  const void* send_buffer;
  Count send_count;
  MPI_Datatype send_type;
  void* receive_buffer;
  Count receive_count;
  MPI_Datatype receive_type;
  MPI_Comm comm;
  MPI_Request* request;
};

template <class Count, class Displacement>
struct AlltoallvArguments {
  const void* send_buffer;
  const Count* send_counts;
  const Displacement* send_displacements;
  MPI_Datatype send_type;
  void* receive_buffer;
  const Count* receive_counts;
  const Displacement* receive_displacements;
  MPI_Datatype receive_type;
  MPI_Comm comm;
  MPI_Request* request;
};

// True: offloaded, *request is set. False: the native MPI does it (also when it is to find an error).
template <class Count>
bool offload_alltoall(Job& job, const AlltoallArguments<Count>& call) {
  CallTimer timer(job, CallTimer::Kind::post);
  const bool in_place = call.send_buffer == MPI_IN_PLACE;
  if (call.request == nullptr || !valid_side(job, call.receive_buffer, call.receive_count, call.receive_type) ||
      (!in_place && !valid_side(job, call.send_buffer, call.send_count, call.send_type)) ||
      (!in_place && aliased(call.send_buffer, call.send_type, call.receive_buffer, call.receive_type,
                            call.send_count == call.receive_count && call.send_count != 0))) {
    count_native(job, Collective::ialltoall, nullptr, NativeReason::invalid_arguments);
    return false;
  }
  const TypeShape receive_shape = shape_of(job, call.receive_type);
  const auto block_bytes =
      static_cast<std::uint64_t>(call.receive_count) * static_cast<std::uint64_t>(receive_shape.size);
  CommState* comm = offload_on(job, call.comm, Collective::ialltoall, block_bytes);
  if (comm == nullptr) return false;
  Operation& operation = *make_operation();
  operation.collective = Collective::ialltoall;
  operation.comm = comm;
  operation.in_place = in_place;
  operation.receive.set_regular(call.receive_buffer, call.receive_count, call.receive_type, receive_shape,
                                comm->size());
  if (in_place) {
    operation.send.set_regular(call.receive_buffer, call.receive_count, call.receive_type, receive_shape, comm->size());
  } else {
    operation.send.set_regular(call.send_buffer, call.send_count, call.send_type, shape_of(job, call.send_type),
                               comm->size());
  }
  timer.belongs_to(operation);
  post_operation(job, operation);
  *call.request = operation.request;
  return true;
}

template <class Count, class Displacement>
bool offload_alltoallv(Job& job, const AlltoallvArguments<Count, Displacement>& call) {
  CallTimer timer(job, CallTimer::Kind::post);
  CommState* comm = offload_on(job, call.comm, Collective::ialltoallv, std::nullopt);
  if (comm == nullptr) return false;
  const bool in_place = call.send_buffer == MPI_IN_PLACE;
  const std::uint32_t peers = comm->size();
  if (call.request == nullptr ||
      !valid_sides(job, call.receive_buffer, call.receive_counts, call.receive_displacements, call.receive_type,
                   peers) ||
      (!in_place &&
       !valid_sides(job, call.send_buffer, call.send_counts, call.send_displacements, call.send_type, peers)) ||
      (!in_place && aliased(call.send_buffer, call.send_type, call.receive_buffer, call.receive_type,
                            call.send_counts == call.receive_counts))) {
    count_native(job, Collective::ialltoallv, comm, NativeReason::invalid_arguments);
    return false;
  }
  Operation& operation = *make_operation();
  operation.collective = Collective::ialltoallv;
  operation.comm = comm;
  operation.in_place = in_place;
  const TypeShape receive_shape = shape_of(job, call.receive_type);
  operation.receive.set_irregular(call.receive_buffer, call.receive_counts, call.receive_displacements,
                                  call.receive_type, receive_shape, peers);
  if (in_place) {
    operation.send.set_irregular(call.receive_buffer, call.receive_counts, call.receive_displacements,
                                 call.receive_type, receive_shape, peers);
  } else {
    operation.send.set_irregular(call.send_buffer, call.send_counts, call.send_displacements, call.send_type,
                                 shape_of(job, call.send_type), peers);
  }
  timer.belongs_to(operation);
  post_operation(job, operation);
  *call.request = operation.request;
  return true;
}

}  // namespace outrigger::mpi
