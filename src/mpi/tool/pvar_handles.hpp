// Handles of our performance variables. They are addresses in one table, which distinguishes them from the MPI's. A
// variable counts from 0 while its handle is started.
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "mpi/native/abi.hpp"
#include "mpi/tool/pvars.hpp"

namespace outrigger::mpi {

struct PvarHandle {
  bool used = false;
  bool running = false;
  MPI_T_pvar_session session{};
  MPI_Comm comm{};  // of a variable of communicators
  PvarRow variable;
  std::uint64_t sum = 0;      // of earlier runs
  std::uint64_t started = 0;  // value of the counter at the start
};

class PvarHandles {
 public:
  static constexpr std::size_t kMost = 1024;  // further ones are rejected: MPI_T_ERR_OUT_OF_HANDLES

  // nullptr if there is none left.
  [[nodiscard]] PvarHandle* take(MPI_T_pvar_session session, const PvarRow& variable, MPI_Comm comm);
  void give_back(PvarHandle& handle);
  void give_back_all_of(MPI_T_pvar_session session);
  // A handle of this session; nullptr if it is not ours, or has been given back.
  [[nodiscard]] PvarHandle* find(MPI_T_pvar_session session, MPI_T_pvar_handle handle);
  // True also if it has been given back.
  [[nodiscard]] bool is_ours(MPI_T_pvar_handle handle) const;

  // Calls `change` with the handle, or with all of the session, under the lock.
  void change(PvarHandle& handle, const std::function<void(PvarHandle&)>& change);
  void change_all_of(MPI_T_pvar_session session, const std::function<void(PvarHandle&)>& change);

 private:
  std::mutex mutex_;
  std::array<PvarHandle, kMost> handles_{};
};

[[nodiscard]] PvarHandles& pvar_handles();

}  // namespace outrigger::mpi
