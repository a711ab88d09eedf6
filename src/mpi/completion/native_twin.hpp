// The loaded MPI's answer to an invalid call on the request of a nonblocking collective. MPIs differ: if they reject
// it, by which code and which error handler, and if the operation's state matters. So the MPI is asked with a request
// of its own, of a collective of this rank alone.
#pragma once

#include <array>

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// A nonblocking collective of the loaded MPI, of this rank with itself, as far along as one of ours. Local; one thread.
class NativeTwin {
 public:
  enum class Progress { active, complete };
  // Errors on the operation's communicator go to the error handler of `like`.
  NativeTwin(MPI_Comm like, Progress progress);
  NativeTwin(const NativeTwin&) = delete;
  NativeTwin& operator=(const NativeTwin&) = delete;
  // Completes the operation, unless its request is gone.
  ~NativeTwin();

  [[nodiscard]] MPI_Request* request() { return &request_; }
  // True: the call has freed or collected the request, so the MPI has not rejected it. The code does not show that:
  // MPICH 5 returns success after the program's error handler has returned.
  [[nodiscard]] bool is_gone() const;

 private:
  MPI_Comm comm_;
  MPI_Request request_;
  std::array<char, 2> sent_{};  // on both sides it has itself
  std::array<char, 2> received_{};
};

}  // namespace outrigger::mpi
