// Handles of our performance variables. A tool gets addresses in one table, so that they are told from the MPI's own
// without asking anybody. A variable counts while its handle is started, from 0.
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
  std::uint64_t sum = 0;      // of the times before this one
  std::uint64_t started = 0;  // what the counter was then
};

class PvarHandles {
 public:
  static constexpr std::size_t kMost = 1024;  // further ones are refused: MPI_T_ERR_OUT_OF_HANDLES

  // Null: there is none left.
  [[nodiscard]] PvarHandle* take(MPI_T_pvar_session session, const PvarRow& variable, MPI_Comm comm);
  void give_back(PvarHandle& handle);
  void give_back_all_of(MPI_T_pvar_session session);
  // Of this session; null: it is none of ours, or has been given back.
  [[nodiscard]] PvarHandle* find(MPI_T_pvar_session session, MPI_T_pvar_handle handle);
  // It may be one that has been given back.
  [[nodiscard]] bool is_ours(MPI_T_pvar_handle handle) const;

  // Calls `change` with the handle, or with all of the session, while nobody else has it.
  void change(PvarHandle& handle, const std::function<void(PvarHandle&)>& change);
  void change_all_of(MPI_T_pvar_session session, const std::function<void(PvarHandle&)>& change);

 private:
  std::mutex mutex_;
  std::array<PvarHandle, kMost> handles_{};
};

[[nodiscard]] PvarHandles& pvar_handles();

}  // namespace outrigger::mpi
