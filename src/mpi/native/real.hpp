// The functions of the MPI that the program has loaded, found at the first intercepted call (normally MPI_Init).
//
// Two views. Entry points pass calls on by number (`Call`), with every argument as a machine word: that also works if
// the loaded MPI has another ABI. The rest of the library calls real().X(...), typed; that is allowed only if the ABI
// matches (abi_matches()).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"

// Intercepted calls, which are also passed on.
// clang-format off
#define OUTRIGGER_INTERCEPTED_MPI3(X)                                                                                \
  X(Init) X(Init_thread) X(Finalize) X(Ialltoall) X(Ialltoallv) X(Ialltoallw) X(Iallgather) X(Iallgatherv)           \
  X(Alltoall) X(Alltoallv) X(Alltoallw) X(Allgather) X(Allgatherv) X(Ibcast) X(Bcast) X(Iallreduce) X(Allreduce)     \
  X(Ireduce) X(Reduce) X(Ireduce_scatter_block) X(Reduce_scatter_block) X(Igather) X(Gather) X(Igatherv)             \
  X(Gatherv) X(Iscatter) X(Scatter) X(Iscatterv) X(Scatterv) X(Ireduce_scatter) X(Reduce_scatter) X(Iscan) X(Scan)   \
  X(Iexscan) X(Exscan) X(Ineighbor_alltoall) X(Neighbor_alltoall) X(Ineighbor_alltoallv) X(Neighbor_alltoallv)       \
  X(Ineighbor_alltoallw) X(Neighbor_alltoallw) X(Ineighbor_allgather) X(Neighbor_allgather)                          \
  X(Ineighbor_allgatherv) X(Neighbor_allgatherv) X(Comm_dup)                                                         \
  X(Comm_dup_with_info) X(Comm_set_info) X(Comm_idup) X(Comm_split) X(Comm_split_type) X(Comm_create) X(Comm_create_group)            \
  X(Cart_create) X(Cart_sub) X(Graph_create) X(Dist_graph_create) X(Dist_graph_create_adjacent) X(Intercomm_merge)   \
  X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) X(Testsome) X(Request_get_status)          \
  X(Request_free) X(Cancel) X(Alloc_mem) X(Free_mem) X(Win_create) X(Win_attach)
#if OUTRIGGER_MPI4
// Missing in older MPIs of the same ABI.
#define OUTRIGGER_INTERCEPTED_MPI4(X)                                                                                \
  X(Ialltoall_c) X(Ialltoallv_c) X(Ialltoallw_c) X(Iallgather_c) X(Iallgatherv_c) X(Ibcast_c) X(Bcast_c)             \
  X(Alltoall_c) X(Alltoallv_c) X(Alltoallw_c) X(Allgather_c) X(Allgatherv_c) X(Iallreduce_c) X(Allreduce_c)          \
  X(Ireduce_c) X(Reduce_c) X(Ireduce_scatter_block_c) X(Reduce_scatter_block_c) X(Igather_c) X(Gather_c)             \
  X(Igatherv_c) X(Gatherv_c) X(Iscatter_c) X(Scatter_c) X(Iscatterv_c) X(Scatterv_c) X(Ireduce_scatter_c)            \
  X(Reduce_scatter_c) X(Iscan_c) X(Scan_c) X(Iexscan_c) X(Exscan_c)                                                            \
  X(Ineighbor_alltoall_c) X(Neighbor_alltoall_c) X(Ineighbor_alltoallv_c) X(Neighbor_alltoallv_c)                    \
  X(Ineighbor_alltoallw_c) X(Neighbor_alltoallw_c) X(Ineighbor_allgather_c) X(Neighbor_allgather_c)                  \
  X(Ineighbor_allgatherv_c) X(Neighbor_allgatherv_c) X(Comm_create_from_group) X(Comm_idup_with_info)    \
  X(Win_create_c)
#else
#define OUTRIGGER_INTERCEPTED_MPI4(X)
#endif
// clang-format on
// MPI 4.1. Older MPIs lack them, and no header declares them all: passed on if provided().
#define OUTRIGGER_INTERCEPTED_MPI41(X) X(Request_get_status_all) X(Request_get_status_any) X(Request_get_status_some)
// The library itself calls some of them by real().
#define OUTRIGGER_BARRIER_FORMS(X, name, lower, ...) X(name) X(I##lower)
#define OUTRIGGER_BARRIERS_AND_STARTS(X) OUTRIGGER_BARRIER_CALL(OUTRIGGER_BARRIER_FORMS, X) X(Start) X(Startall)
// Persistent forms, in every ABI: Open MPI has them since 5.0, and 4.1 under other names (MPIX_X_init).
#define OUTRIGGER_PERSISTENT_FORM(X, name, ...) X(name##_init)
#define OUTRIGGER_PERSISTENT(X) OUTRIGGER_OFFLOADED_CALLS(OUTRIGGER_PERSISTENT_FORM, X) X(Barrier_init)
#if OUTRIGGER_MPI4
#define OUTRIGGER_LARGE_PERSISTENT_FORM(X, name, ...) X(name##_init_c)
#define OUTRIGGER_LARGE_PERSISTENT(X) OUTRIGGER_OFFLOADED_CALLS(OUTRIGGER_LARGE_PERSISTENT_FORM, X)
#else
#define OUTRIGGER_LARGE_PERSISTENT(X)
#endif
// The tools' interface, MPI_T.
// clang-format off
#define OUTRIGGER_TOOLS_MPI3(X)                                                                                       \
  X(T_cvar_get_num) X(T_cvar_get_info) X(T_cvar_get_index) X(T_cvar_handle_alloc) X(T_cvar_handle_free)               \
  X(T_cvar_read) X(T_cvar_write) X(T_pvar_get_num) X(T_pvar_get_info) X(T_pvar_get_index) X(T_pvar_session_free)      \
  X(T_pvar_handle_alloc) X(T_pvar_handle_free) X(T_pvar_start) X(T_pvar_stop) X(T_pvar_read) X(T_pvar_write)          \
  X(T_pvar_reset) X(T_pvar_readreset) X(T_category_get_num) X(T_category_get_info) X(T_category_get_index)            \
  X(T_category_get_cvars) X(T_category_get_pvars) X(T_category_get_categories)
// clang-format on
#if OUTRIGGER_MPI4
#define OUTRIGGER_TOOLS(X) OUTRIGGER_TOOLS_MPI3(X) X(T_category_get_num_events) X(T_category_get_events)
#else
#define OUTRIGGER_TOOLS(X) OUTRIGGER_TOOLS_MPI3(X)
#endif
// Calls that hand data to the MPI, and others by which other processes reach memory (mpi/windows), with the numbers of
// their arguments. Older MPIs lack those of MPI 4, and programs may look for these names: a library for such an ABI
// does not define them.
// clang-format off
#define OUTRIGGER_DATA_CALLS_MPI3(X)                                                                                  \
  X(Send, 6) X(Bsend, 6) X(Ssend, 6) X(Rsend, 6) X(Isend, 7) X(Ibsend, 7) X(Issend, 7) X(Irsend, 7) X(Recv, 7)        \
  X(Irecv, 7) X(Mrecv, 5) X(Imrecv, 5) X(Sendrecv, 12) X(Sendrecv_replace, 9)
#define OUTRIGGER_DATA_CALLS_MPI4(X)                                                                                  \
  X(Isendrecv, 12) X(Isendrecv_replace, 9) X(Pready, 2) X(Pready_range, 3) X(Pready_list, 3) X(Send_c, 6)             \
  X(Bsend_c, 6) X(Ssend_c, 6) X(Rsend_c, 6) X(Isend_c, 7) X(Ibsend_c, 7) X(Issend_c, 7) X(Irsend_c, 7) X(Recv_c, 7)   \
  X(Irecv_c, 7) X(Mrecv_c, 5) X(Imrecv_c, 5) X(Sendrecv_c, 12) X(Sendrecv_replace_c, 9) X(Isendrecv_c, 12)            \
  X(Isendrecv_replace_c, 9)
#define OUTRIGGER_MEMORY_CALLS_MPI3(X)                                                                                \
  X(Win_allocate, 6) X(Win_allocate_shared, 6) X(Win_create_dynamic, 3) X(File_open, 5)
#define OUTRIGGER_MEMORY_CALLS_MPI4(X) X(Win_allocate_c, 6) X(Win_allocate_shared_c, 6)
// They wait for a message, and hand none over.
#define OUTRIGGER_PROBE_CALLS(X) X(Probe, 4) X(Mprobe, 5)
// clang-format on
#if OUTRIGGER_MPI4
#define OUTRIGGER_DATA_CALLS(X) OUTRIGGER_DATA_CALLS_MPI3(X) OUTRIGGER_DATA_CALLS_MPI4(X)
#define OUTRIGGER_MEMORY_CALLS(X) OUTRIGGER_MEMORY_CALLS_MPI3(X) OUTRIGGER_MEMORY_CALLS_MPI4(X)
#else
#define OUTRIGGER_DATA_CALLS(X) OUTRIGGER_DATA_CALLS_MPI3(X)
#define OUTRIGGER_MEMORY_CALLS(X) OUTRIGGER_MEMORY_CALLS_MPI3(X)
#endif
#define OUTRIGGER_INTERCEPTED(X)   \
  OUTRIGGER_INTERCEPTED_MPI3(X)    \
  OUTRIGGER_INTERCEPTED_MPI4(X)    \
  OUTRIGGER_INTERCEPTED_MPI41(X)   \
  OUTRIGGER_BARRIERS_AND_STARTS(X) \
  OUTRIGGER_PERSISTENT(X)          \
  OUTRIGGER_LARGE_PERSISTENT(X)    \
  OUTRIGGER_TOOLS(X) X(Abort) X(Pcontrol) OUTRIGGER_DATA_CALLS(X) OUTRIGGER_PROBE_CALLS(X) OUTRIGGER_MEMORY_CALLS(X)

// Further functions that the library itself calls.
// clang-format off
#define OUTRIGGER_USED(X)                                                                                            \
  X(Abort) X(Barrier) X(Cart_shift) X(Cartdim_get) X(Comm_call_errhandler) X(Comm_create_keyval)                     \
  X(Comm_delete_attr) X(Comm_free) X(Comm_free_keyval) X(Comm_get_attr) X(Comm_get_errhandler) X(Comm_get_name)      \
  X(Comm_group) X(Comm_rank) X(Comm_remote_group) X(Comm_remote_size) X(Comm_set_attr) X(Comm_set_errhandler) X(Comm_size)                \
  X(Comm_test_inter) X(Dist_graph_neighbors) X(Dist_graph_neighbors_count) X(Errhandler_free) X(Error_class)         \
  X(Get_library_version) X(Graph_neighbors) X(Graph_neighbors_count) X(Grequest_complete) X(Grequest_start)          \
  X(Group_free) X(Group_translate_ranks) X(Info_get) X(Irecv) X(Isend) X(Pack) X(Query_thread) X(Start)                              \
  X(Status_set_cancelled) X(Status_set_elements) X(Topo_test) X(Type_commit) X(Type_contiguous)                      \
  X(Type_create_hindexed) X(Type_create_keyval) X(Type_free) X(Type_free_keyval) X(Type_get_attr) X(Type_get_contents)           \
  X(Type_get_envelope) X(Type_get_extent) X(Type_get_true_extent) X(Type_set_attr) X(Type_size_x) X(Unpack)
// nullptr if missing in an older MPI of the same ABI.
#define OUTRIGGER_USED_MPI4(X) X(Precv_init) X(Pready) X(Psend_init) X(Type_get_envelope_c)
// clang-format on
// The loaded MPI's conversion of a Fortran handle to a communicator; in MPICH's ABI they are equal.
#if defined(OUTRIGGER_ABI_OPENMPI)
#define OUTRIGGER_USED_CONVERSIONS(X) X(Comm_f2c)
#elif defined(OUTRIGGER_ABI_MPIABI)
#define OUTRIGGER_USED_CONVERSIONS(X) X(Comm_fromint)
#else
#define OUTRIGGER_USED_CONVERSIONS(X)
#endif

namespace outrigger::mpi {

using Word = std::uintptr_t;

enum class Call : std::size_t {
#define OUTRIGGER_ENUMERATOR(name, ...) name,
  OUTRIGGER_INTERCEPTED(OUTRIGGER_ENUMERATOR)
#undef OUTRIGGER_ENUMERATOR
      count
};

struct Real {
#define OUTRIGGER_MEMBER(name) \
  decltype(&PMPI_##name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a member's name
  OUTRIGGER_INTERCEPTED_MPI3(OUTRIGGER_MEMBER)
  OUTRIGGER_INTERCEPTED_MPI4(OUTRIGGER_MEMBER)
  OUTRIGGER_USED(OUTRIGGER_MEMBER)
  OUTRIGGER_USED_CONVERSIONS(OUTRIGGER_MEMBER)
#if OUTRIGGER_MPI4
  OUTRIGGER_USED_MPI4(OUTRIGGER_MEMBER)
#endif
#undef OUTRIGGER_MEMBER
};

namespace detail {
extern constinit std::array<std::atomic<void*>, static_cast<std::size_t>(Call::count)> addresses;
extern constinit Real table;
// Finds all functions at the first call; ends the program if this one does not exist.
[[nodiscard]] void* resolve(Call call);

inline constexpr char kNotLookedFor = 0;
struct Tool {
  std::atomic<const void*> address = &kNotLookedFor;
};
extern constinit std::array<Tool, static_cast<std::size_t>(Call::count)> tools;
}  // namespace detail

// Calls the function at an address with the call's arguments.
template <class... Words>
int call_at(void* address, Words... words) {
  return reinterpret_cast<int (*)(Words...)>(address)(words...);
}

// Passes a call on to the loaded MPI.
template <class... Words>
int pass(Call call, Words... words) {
  void* address = detail::addresses[static_cast<std::size_t>(call)].load(std::memory_order_acquire);
  if (address == nullptr) [[unlikely]] {
    address = detail::resolve(call);
  }
  return call_at(address, words...);
}

// False: no profiling tool after this library defines the call as MPI_X, or the definition is known to be libmpi's.
[[nodiscard]] inline bool may_have_tool(Call call) {
  return detail::tools[static_cast<std::size_t>(call)].address.load(std::memory_order_acquire) != nullptr;
}

// The tool's MPI_X, or nullptr. Finds the functions if necessary.
[[nodiscard]] void* tool_behind(Call call);

// True if tools call PMPI_X by its name, as they should, and so come back to this library. MPI_Init must have shown it:
// otherwise an offloaded request might be waited for by the MPI alone and never end.
[[nodiscard]] bool tools_come_back();
void trust_tools();

// True if the loaded MPI has this function. Finds the functions if necessary.
[[nodiscard]] bool provided(Call call);

// True: the loaded MPI has this library's ABI and all functions that the library uses, so real() and constants() may be
// used. Finds the functions if necessary.
[[nodiscard]] bool abi_matches();

[[nodiscard]] inline const Real& real() {
  return detail::table;
}

}  // namespace outrigger::mpi
