// Lets exceptions, pthread_exit() and cancellation pass through this library: the MPI, which this library has called,
// calls the program's callbacks.
//
// A process needs a single unwinder, but the statically linked C++ runtime works on its own copy's state. So the
// unwinder's functions are taken from the system's libgcc_s.so.1 at first use, as the C library does for
// pthread_exit(). The library does not link libgcc_s, as it is also loaded into shells.
//
// A program's exception only runs destructors here: no handler takes it. If the program has its own unwinder (for
// example by -static-libgcc), this library looks like C code and no destructor runs. longjmp() runs none either. So no
// lock may be held while the MPI may call the program.
#include <dlfcn.h>
#include <unwind.h>

#include <atomic>

#include "mpi/native/die.hpp"
#include "mpi/native/module.hpp"

// clang-format off
#define OUTRIGGER_UNWINDER(X)                                                                                        \
  X(_Unwind_RaiseException) X(_Unwind_Resume) X(_Unwind_Resume_or_Rethrow) X(_Unwind_DeleteException)                \
  X(_Unwind_GetLanguageSpecificData) X(_Unwind_GetRegionStart) X(_Unwind_GetIPInfo) X(_Unwind_GetTextRelBase)        \
  X(_Unwind_GetDataRelBase) X(_Unwind_SetGR) X(_Unwind_SetIP)
// clang-format on

namespace outrigger::mpi {
namespace {

constexpr const char* kLibrary = "libgcc_s.so.1";

struct Unwinder {
#define OUTRIGGER_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  OUTRIGGER_UNWINDER(OUTRIGGER_MEMBER)
#undef OUTRIGGER_MEMBER
  const void* module = nullptr;
};

Unwinder find_unwinder() {
  Unwinder found;
  void* library = ::dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);  // never closed
  if (library == nullptr) die("an exception needs %s, which cannot be loaded: %s", kLibrary, ::dlerror());
#define OUTRIGGER_FIND(name)                                                 \
  found.name = reinterpret_cast<decltype(&::name)>(::dlsym(library, #name)); \
  if (found.name == nullptr) die("an exception needs %s of %s", #name, kLibrary);
  OUTRIGGER_UNWINDER(OUTRIGGER_FIND)
#undef OUTRIGGER_FIND
  found.module = module_of(reinterpret_cast<const void*>(found._Unwind_RaiseException));
  return found;
}

const Unwinder& unwinder() {
  static const Unwinder found = find_unwinder();
  return found;
}

using Cleanup = decltype(_Unwind_Exception::exception_cleanup);
// The runtime's own function, the same for all exceptions of this library.
constinit std::atomic<Cleanup> own_cleanup = nullptr;

bool is_own(const _Unwind_Exception& exception) {
  const Cleanup own = own_cleanup.load(std::memory_order_relaxed);
  return own != nullptr && exception.exception_cleanup == own;
}

// `caller` has called this library's personality function for a foreign exception.
bool is_unwinder_of_all(const void* caller) {
  const bool is_there = ::dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  return is_there && module_of(caller) == unwinder().module;
}

}  // namespace
}  // namespace outrigger::mpi

extern "C" {

_Unwind_Reason_Code _Unwind_RaiseException(_Unwind_Exception* exception) {
  outrigger::mpi::own_cleanup.store(exception->exception_cleanup, std::memory_order_relaxed);
  return outrigger::mpi::unwinder()._Unwind_RaiseException(exception);
}

void _Unwind_Resume(_Unwind_Exception* exception) {
  outrigger::mpi::unwinder()._Unwind_Resume(exception);
  __builtin_unreachable();
}

_Unwind_Reason_Code _Unwind_Resume_or_Rethrow(_Unwind_Exception* exception) {
  return outrigger::mpi::unwinder()._Unwind_Resume_or_Rethrow(exception);
}

void _Unwind_DeleteException(_Unwind_Exception* exception) {
  outrigger::mpi::unwinder()._Unwind_DeleteException(exception);
}

void* _Unwind_GetLanguageSpecificData(_Unwind_Context* context) {
  return outrigger::mpi::unwinder()._Unwind_GetLanguageSpecificData(context);
}

_Unwind_Ptr _Unwind_GetRegionStart(_Unwind_Context* context) {
  return outrigger::mpi::unwinder()._Unwind_GetRegionStart(context);
}

_Unwind_Ptr _Unwind_GetIPInfo(_Unwind_Context* context, int* before_instruction) {
  return outrigger::mpi::unwinder()._Unwind_GetIPInfo(context, before_instruction);
}

_Unwind_Ptr _Unwind_GetTextRelBase(_Unwind_Context* context) {
  return outrigger::mpi::unwinder()._Unwind_GetTextRelBase(context);
}

_Unwind_Ptr _Unwind_GetDataRelBase(_Unwind_Context* context) {
  return outrigger::mpi::unwinder()._Unwind_GetDataRelBase(context);
}

void _Unwind_SetGR(_Unwind_Context* context, int index, _Unwind_Word value) {
  outrigger::mpi::unwinder()._Unwind_SetGR(context, index, value);
}

void _Unwind_SetIP(_Unwind_Context* context, _Unwind_Ptr address) {
  outrigger::mpi::unwinder()._Unwind_SetIP(context, address);
}

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

// Unwinders call it for each frame of this library (-Wl,--wrap in CMakeLists.txt).
_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
  using namespace outrigger::mpi;
  if (is_own(*exception)) return __real___gxx_personality_v0(version, actions, kind, exception, context);
  if ((actions & _UA_CLEANUP_PHASE) == 0) return _URC_CONTINUE_UNWIND;
  if (!is_unwinder_of_all(__builtin_return_address(0))) return _URC_CONTINUE_UNWIND;
  // Like a cancellation, which no typed handler takes.
  return __real___gxx_personality_v0(version, static_cast<_Unwind_Action>(actions | _UA_FORCE_UNWIND), kind, exception,
                                     context);
}

}  // extern "C"
