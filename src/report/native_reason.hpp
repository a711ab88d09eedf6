// The reasons for which calls stay native. Users see them in reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrigger::report {

// Why a call was left to the native MPI.
enum class NativeReason : std::uint8_t {
  none,
  unknown_communicator,  // members outside MPI_COMM_WORLD, or made in a way not seen
  intercommunicator,
  group_of_one,
  group_too_large,
  switched_off,  // info key outrigger=off
  users_rule,    // --algorithm or --blocking
  invalid_arguments,
  service_core_taken,  // by other processes, for a while
  small_blocks,        // of a v-form, so far
  measured_choice,     // a trial has shown that it is no slower
  not_tried,           // ranks leave no core, and no trial was worth it so far
  services_died,       // too often
  other_reduction,     // an operation or a datatype that service processes do not reduce
  rounding,            // a floating-point sum or product: no rule allows another order than the MPI's
  // The following are not in `collectives`, which has what could have been offloaded as things were.
  blocking_form,  // no rule offloads it
  not_offloaded,  // there is no offloaded form of it
  native_job,     // the whole job runs natively
  // Blocking calls that the ranks of the node may do themselves.
  few_calls,    // on this communicator so far
  in_trials,    // the MPI's turn in a trial against the ranks
  mpi_as_fast,  // a trial has shown it
  // Reductions that ranks would do by themselves if they knew the order in which the MPI adds.
  order_not_learned,  // not yet: it takes calls that later ones repay
  order_not_found,    // the MPI's results show none, or change
  nans,               // only the MPI knows the bits of its NaNs; of minima and maxima also of zeros
};
inline constexpr std::size_t kNativeReasons = 24;
inline constexpr std::array<const char*, kNativeReasons> kReasonNames{"none",
                                                                      "unknown communicator",
                                                                      "intercommunicator",
                                                                      "group of one",
                                                                      "group too large",
                                                                      "switched off",
                                                                      "your rule",
                                                                      "invalid arguments",
                                                                      "service core taken",
                                                                      "small blocks",
                                                                      "measured choice",
                                                                      "not tried",
                                                                      "services died",
                                                                      "other operation or datatype",
                                                                      "rounding",
                                                                      "blocking form",
                                                                      "no offloaded form",
                                                                      "native job",
                                                                      "too few calls",
                                                                      "in trials",
                                                                      "MPI as fast",
                                                                      "order not learned",
                                                                      "order not found",
                                                                      "nan results"};
[[nodiscard]] constexpr bool could_be_offloaded(NativeReason reason) {
  return reason < NativeReason::blocking_form;
}

}  // namespace outrigger::report
