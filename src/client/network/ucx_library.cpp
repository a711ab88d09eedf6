#include "client/network/ucx_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace outrigger::client {
namespace {

constexpr const char* kUcp = "libucp.so.0";
constexpr const char* kUcs = "libucs.so.0";
constexpr const char* kUcm = "libucm.so.0";

// Loading it must not change the program's signal handlers.
void* load_quietly() {
  constexpr const char* kSignals = "UCX_ERROR_SIGNALS";
  const bool ours = ::getenv(kSignals) == nullptr;
  if (ours) ::setenv(kSignals, "", 0);
  void* library = ::dlopen(kUcp, RTLD_NOW | RTLD_LOCAL);
  if (ours) ::unsetenv(kSignals);
  return library;
}

void* loaded(const char* name) {
  return ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  if (library != nullptr) function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<const UcxLibrary*> look() {
  void* ucp = loaded(kUcp);
  if (ucp == nullptr) ucp = load_quietly();
  if (ucp == nullptr) {
    const char* why = ::dlerror();
    return Error{std::string("no UCX on this host: ") + (why != nullptr ? why : kUcp)};
  }
  static UcxLibrary ucx;
  // Loaded together with libucp, from the same place.
  void* ucs = loaded(kUcs);
  void* ucm = loaded(kUcm);
  const bool complete =
      find(ucp, "ucp_config_read", ucx.config_read) && find(ucp, "ucp_config_modify", ucx.config_modify) &&
      find(ucp, "ucp_config_release", ucx.config_release) && find(ucp, "ucp_init_version", ucx.init_version) &&
      find(ucp, "ucp_cleanup", ucx.cleanup) && find(ucp, "ucp_worker_create", ucx.worker_create) &&
      find(ucp, "ucp_worker_destroy", ucx.worker_destroy) &&
      find(ucp, "ucp_worker_get_address", ucx.worker_get_address) &&
      find(ucp, "ucp_worker_release_address", ucx.worker_release_address) &&
      find(ucp, "ucp_worker_progress", ucx.worker_progress) &&
      find(ucp, "ucp_worker_set_am_recv_handler", ucx.worker_set_am_recv_handler) &&
      find(ucp, "ucp_mem_map", ucx.mem_map) && find(ucp, "ucp_mem_unmap", ucx.mem_unmap) &&
      find(ucp, "ucp_rkey_pack", ucx.rkey_pack) && find(ucp, "ucp_rkey_buffer_release", ucx.rkey_buffer_release) &&
      find(ucp, "ucp_am_send_nbx", ucx.am_send_nbx) && find(ucp, "ucp_request_free", ucx.request_free) &&
      find(ucs, "ucs_status_string", ucx.status_string);
  if (!complete) return Error{"the UCX of this host lacks required functions; install 1.13 or later"};
  ucx.exports = exports::find_calls(ucp);
  if (!find(ucm, "ucm_set_event_handler", ucx.set_event_handler) ||
      !find(ucm, "ucm_unset_event_handler", ucx.unset_event_handler)) {
    ucx.set_event_handler = nullptr;
  }
  return &ucx;
}

}  // namespace

Result<const UcxLibrary*> ucx_library() {
  static const Result<const UcxLibrary*> found = look();
  return found;
}

}  // namespace outrigger::client
