// Replaces the C++ runtime's memory for exceptions. That one (linked statically, see CMakeLists.txt) reserves an
// emergency pool at load time, and the library is loaded into every process of a job's environment, including shells.
// This one allocates nothing before something is thrown.
//
// The runtime keeps its header directly in front of the object and finds it by the object's address, so any sufficient
// room works.
#include <cstddef>
#include <cstdlib>
#include <exception>

namespace {

constexpr std::size_t kHeaderRoom = 256;  // the largest header of the supported machines is 128 bytes

void* zeroed(std::size_t bytes) {
  void* memory = std::calloc(1, bytes);
  if (memory == nullptr) std::terminate();
  return memory;
}

}  // namespace

extern "C" {

void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  return static_cast<std::byte*>(zeroed(kHeaderRoom + bytes)) + kHeaderRoom;
}

void __cxa_free_exception(void* object) noexcept {
  std::free(static_cast<std::byte*>(object) - kHeaderRoom);
}

void* __cxa_allocate_dependent_exception() noexcept {
  return zeroed(kHeaderRoom);
}

void __cxa_free_dependent_exception(void* exception) noexcept {
  std::free(exception);
}

}  // extern "C"
