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
};
inline constexpr std::size_t kNativeReasons = 18;
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
                                                                      "native job"};
[[nodiscard]] constexpr bool could_be_offloaded(NativeReason reason) {
  return reason < NativeReason::blocking_form;
}

}  // namespace outrigger::report
