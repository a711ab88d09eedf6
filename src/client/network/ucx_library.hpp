// UCX in this process: the copy that the program's MPI has loaded, else the system's. Never a second copy, and not
// linked: without a DPU it is not loaded.
#pragma once

#include <sys/types.h>
// The event interface uses off_t and UCX's own macros, which the next header provides.
#include <ucp/api/ucp.h>

#include "base/result.hpp"
#include "base/ucx_exports.hpp"

namespace outrigger::client {

struct UcxLibrary {
  decltype(&ucp_config_read) config_read = nullptr;
  decltype(&ucp_config_modify) config_modify = nullptr;
  decltype(&ucp_config_release) config_release = nullptr;
  decltype(&ucp_init_version) init_version = nullptr;
  decltype(&ucp_cleanup) cleanup = nullptr;
  decltype(&ucp_worker_create) worker_create = nullptr;
  decltype(&ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&ucp_worker_progress) worker_progress = nullptr;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler = nullptr;
  decltype(&ucp_mem_map) mem_map = nullptr;
  decltype(&ucp_mem_unmap) mem_unmap = nullptr;
  decltype(&ucp_rkey_pack) rkey_pack = nullptr;
  decltype(&ucp_rkey_buffer_release) rkey_buffer_release = nullptr;
  decltype(&ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&ucp_request_free) request_free = nullptr;
  decltype(&ucs_status_string) status_string = nullptr;
  exports::Calls exports{};  // nullptr if this UCX lacks them
  // Calls `called` with each range before the program unmaps it. nullptr if UCX cannot report that. From libucm, whose
  // own types are not needed.
  using UnmapCallback = void (*)(int event, void* range, void* argument);
  int (*set_event_handler)(int events, int priority, UnmapCallback called, void* argument) = nullptr;
  void (*unset_event_handler)(int events, UnmapCallback called, void* argument) = nullptr;
};

// Searches once. Error: no UCX, or one that lacks required functions.
[[nodiscard]] Result<const UcxLibrary*> ucx_library();

}  // namespace outrigger::client
