#include "mpi/tool/pvar_handles.hpp"

namespace outrigger::mpi {

PvarHandle* PvarHandles::take(MPI_T_pvar_session session, const PvarRow& variable, MPI_Comm comm) {
  const std::scoped_lock lock(mutex_);
  for (PvarHandle& handle : handles_) {
    if (handle.used) continue;
    handle = PvarHandle{};
    handle.used = true;
    handle.session = session;
    handle.comm = comm;
    handle.variable = variable;
    return &handle;
  }
  return nullptr;
}

void PvarHandles::give_back(PvarHandle& handle) {
  const std::scoped_lock lock(mutex_);
  handle.used = false;
}

void PvarHandles::give_back_all_of(MPI_T_pvar_session session) {
  change_all_of(session, [](PvarHandle& handle) { handle.used = false; });
}

bool PvarHandles::is_ours(MPI_T_pvar_handle handle) const {
  const auto address = reinterpret_cast<std::uintptr_t>(handle);
  const auto first = reinterpret_cast<std::uintptr_t>(handles_.data());
  return address >= first && address < first + sizeof handles_ && (address - first) % sizeof(PvarHandle) == 0;
}

PvarHandle* PvarHandles::find(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  if (!is_ours(handle)) return nullptr;
  auto* found = reinterpret_cast<PvarHandle*>(handle);
  const std::scoped_lock lock(mutex_);
  return found->used && found->session == session ? found : nullptr;
}

void PvarHandles::change(PvarHandle& handle, const std::function<void(PvarHandle&)>& change) {
  const std::scoped_lock lock(mutex_);
  change(handle);
}

void PvarHandles::change_all_of(MPI_T_pvar_session session, const std::function<void(PvarHandle&)>& change) {
  const std::scoped_lock lock(mutex_);
  for (PvarHandle& handle : handles_) {
    if (handle.used && handle.session == session) change(handle);
  }
}

PvarHandles& pvar_handles() {
  static auto* all = new PvarHandles;  // until the end of the process
  return *all;
}

}  // namespace outrigger::mpi
