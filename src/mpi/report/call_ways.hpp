// The way of a call into the MPI: the frames between it and the program, found by unwinding. Takes microseconds.
//
// Thread rule: any thread. Only while calls are counted (ledger_rows.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mpi/report/ledger_rows.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct CallOrigin {
  const void* caller = nullptr;  // an address in the calling code
  const void* depth = nullptr;   // an address in a frame of this library: the same whenever the same code calls alike
};

inline constexpr std::size_t kMostSlots = 32;

// A place on the stack where a return address is.
struct ReturnSlot {
  const std::uintptr_t* place = nullptr;
  std::uintptr_t address = 0;
};

// A way into the MPI, from the caller outwards.
struct CallWay {
  CallPlaces places;
  std::uint32_t slot_count = 0;
  std::array<ReturnSlot, kMostSlots> slots;
  bool repeats = true;  // slots tell whether another call comes the same way
};

enum class CodeOwner : std::uint8_t { unknown, program, library, mpi };
struct FoundCode {
  CodeOwner owner = CodeOwner::unknown;
  const void* base = nullptr;  // the same for all code of an object
  std::uint64_t offset = 0;    // of the address
  const char* path = nullptr;
};

// `address`: a return address.
[[nodiscard]] FoundCode code_at(const void* address);
[[nodiscard]] report::CodePlace code_place_of(const FoundCode& code);
// `caller`: the code of the origin's caller.
[[nodiscard]] CallWay way_of(const CallOrigin& origin, const FoundCode& caller);
// True if `place` on this thread's stack is in a frame of the MPI or of this library. False: it may be in any.
[[nodiscard]] bool is_in_mpi_frame(const void* place);
// The stack of this thread. Addresses in it can be read as long as the thread lives.
[[nodiscard]] bool is_on_this_stack(const void* low, const void* high);

}  // namespace outrigger::mpi
