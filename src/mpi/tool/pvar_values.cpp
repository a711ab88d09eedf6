// MPI_T_pvar_handle_alloc, MPI_T_pvar_start, MPI_T_pvar_read and the like, and MPI_T_pvar_session_free.
#include <optional>

#include "mpi/api/counter_values.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/report/on_demand.hpp"
#include "mpi/tool/pvar_handles.hpp"
#include "mpi/tool/texts.hpp"

namespace outrigger::mpi {
namespace {

// The header's value for all handles of a session. MPICH has it as data of its library.
MPI_T_pvar_handle all_handles() {
#if defined(OUTRIGGER_ABI_MPICH)
  const void* constant = data_symbol_if_there("MPI_T_PVAR_ALL_HANDLES");
  return constant == nullptr ? MPI_T_pvar_handle{} : *static_cast<const MPI_T_pvar_handle*>(constant);
#else
  return MPI_T_PVAR_ALL_HANDLES;
#endif
}

// 0 while nothing is counted, as before MPI_Init or after the end.
std::uint64_t count_behind(const PvarHandle& handle) {
  const PvarRow& row = handle.variable;
  const auto value =
      row.of_communicator ? counter_value(row.place, handle.comm, std::nullopt) : counter_value(row.place);
  return value.value_or(0);
}

std::uint64_t value_of(const PvarHandle& handle) {
  return handle.sum + (handle.running ? count_behind(handle) - handle.started : 0);
}

void start_handle(PvarHandle& handle) {
  if (handle.running) return;
  handle.started = count_behind(handle);
  handle.running = true;
}

void stop_handle(PvarHandle& handle) {
  handle.sum = value_of(handle);
  handle.running = false;
}

void set_handle(PvarHandle& handle, std::uint64_t value) {
  handle.sum = value;
  handle.started = count_behind(handle);
}

void put_value(const PvarHandle& handle, void* place) {
  const std::uint64_t value = value_of(handle);
  if (handle.variable.is_time()) {
    *static_cast<double*>(place) = 1e-9 * static_cast<double>(value);
  } else {
    *static_cast<unsigned long long*>(place) = value;
  }
}

std::uint64_t value_in(const PvarHandle& handle, const void* place) {
  if (!handle.variable.is_time()) return *static_cast<const unsigned long long*>(place);
  const double nanoseconds = 1e9 * *static_cast<const double*>(place);
  return nanoseconds > 0 ? static_cast<std::uint64_t>(nanoseconds) : 0;
}

struct PvarHandleAlloc {
  template <Call call>
  static int run(const CallSite& site, Word session, Word index, Word object, Word handle, Word count) {
    if (site.inside_mpi() || !abi_matches()) return site.pass(call, session, index, object, handle, count);
    int known = 0;
    if (const int code = native_count(Call::T_pvar_get_num, known); code != MPI_SUCCESS) return code;
    pvar_indices().see_native(known);
    const std::optional<int> place = pvar_indices().ours(argument<int>(index));
    if (place) {
      return make(argument<MPI_T_pvar_session>(session), pvar_at(*place), argument<const MPI_Comm*>(object),
                  argument<MPI_T_pvar_handle*>(handle), argument<int*>(count));
    }
    const std::optional<int> native = pvar_indices().native(argument<int>(index), known);
    if (!native) return MPI_T_ERR_INVALID_INDEX;
    return site.pass(call, session, static_cast<Word>(*native), object, handle, count);
  }

 private:
  static int make(MPI_T_pvar_session session, const PvarRow& row, const MPI_Comm* comm, MPI_T_pvar_handle* handle,
                  int* count) {
    if (handle == nullptr || (row.of_communicator && comm == nullptr)) return MPI_T_ERR_INVALID;
    if (!count_on_demand()) return MPI_T_ERR_INVALID;
    // Counted together with other communicators, so it has no value of its own.
    if (row.of_communicator && !counter_value(row.place, *comm, std::nullopt)) return MPI_T_ERR_INVALID;
    PvarHandle* made = pvar_handles().take(session, row, row.of_communicator ? *comm : MPI_Comm{});
    if (made == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
    *handle = reinterpret_cast<MPI_T_pvar_handle>(made);
    give(count, 1);
    return MPI_SUCCESS;
  }
};

struct PvarHandleFree {
  template <Call call>
  static int run(const CallSite& site, Word session, Word handle) {
    auto* place = argument<MPI_T_pvar_handle*>(handle);
    if (place == nullptr || !pvar_handles().is_ours(*place)) return site.pass(call, session, handle);
    PvarHandle* found = pvar_handles().find(argument<MPI_T_pvar_session>(session), *place);
    if (found == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    pvar_handles().give_back(*found);
    *place = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
  }
};

struct PvarSessionFree {
  template <Call call>
  static int run(const CallSite& site, Word session) {
    if (session != 0) pvar_handles().give_back_all_of(*argument<const MPI_T_pvar_session*>(session));
    return site.pass(call, session);
  }
};

// For one of our handles, or, with the value for all, also for the MPI's.
template <auto change>
struct PvarChange {
  template <Call call>
  static int run(const CallSite& site, Word session, Word word) {
    const auto of = argument<MPI_T_pvar_session>(session);
    const auto handle = argument<MPI_T_pvar_handle>(word);
    if (handle == all_handles()) {
      pvar_handles().change_all_of(of, change);
      return site.pass(call, session, word);
    }
    if (!pvar_handles().is_ours(handle)) return site.pass(call, session, word);
    PvarHandle* found = pvar_handles().find(of, handle);
    if (found == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    pvar_handles().change(*found, change);
    return MPI_SUCCESS;
  }
};

constexpr auto kReset = [](PvarHandle& handle) { set_handle(handle, 0); };

// `access`, of type void(PvarHandle&, void*), reads or writes the tool's value.
template <auto access>
struct PvarAccess {
  template <Call call>
  static int run(const CallSite& site, Word session, Word handle, Word memory) {
    if (!pvar_handles().is_ours(argument<MPI_T_pvar_handle>(handle))) return site.pass(call, session, handle, memory);
    PvarHandle* found = pvar_handles().find(argument<MPI_T_pvar_session>(session), argument<MPI_T_pvar_handle>(handle));
    if (found == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (memory == 0) return MPI_T_ERR_INVALID;
    pvar_handles().change(*found, [&](PvarHandle& locked) { access(locked, argument<void*>(memory)); });
    return MPI_SUCCESS;
  }
};

constexpr auto kRead = [](PvarHandle& handle, void* memory) { put_value(handle, memory); };
constexpr auto kWrite = [](PvarHandle& handle, void* memory) { set_handle(handle, value_in(handle, memory)); };
constexpr auto kReadAndReset = [](PvarHandle& handle, void* memory) {
  put_value(handle, memory);
  set_handle(handle, 0);
};

}  // namespace

OUTRIGGER_ENTRY(T_pvar_handle_alloc, 5, PvarHandleAlloc)
OUTRIGGER_ENTRY(T_pvar_handle_free, 2, PvarHandleFree)
OUTRIGGER_ENTRY(T_pvar_session_free, 1, PvarSessionFree)
OUTRIGGER_ENTRY(T_pvar_start, 2, PvarChange<&start_handle>)
OUTRIGGER_ENTRY(T_pvar_stop, 2, PvarChange<&stop_handle>)
OUTRIGGER_ENTRY(T_pvar_reset, 2, PvarChange<kReset>)
OUTRIGGER_ENTRY(T_pvar_read, 3, PvarAccess<kRead>)
OUTRIGGER_ENTRY(T_pvar_write, 3, PvarAccess<kWrite>)
OUTRIGGER_ENTRY(T_pvar_readreset, 3, PvarAccess<kReadAndReset>)

}  // namespace outrigger::mpi
