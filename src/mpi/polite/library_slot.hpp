// Redirects the calls that one loaded library makes to a function of another one. All other libraries keep calling the
// function itself, and without a redirection nothing is added to any call.
#pragma once

namespace outrigger::mpi {

// The slot through which the library that contains `inside` calls the function; nullptr if it does not.
[[nodiscard]] void** library_slot(const void* inside, const char* function);

// The function in the slot may be called directly. False: the loader has not written the slot yet. Its code there would
// look for the slot in a register.
[[nodiscard]] bool may_call_by(void* const* slot);

// Writes the slot, which the loader may have made read-only. False: the kernel refuses.
[[nodiscard]] bool write_slot(void** slot, void* function);

}  // namespace outrigger::mpi
