// What the loaded MPI says of a bad call on the request of a nonblocking collective: MPIs, and versions of them,
// differ, in whether they refuse it, in the code, in whose error handler is told, and in whether it matters that the
// operation has ended. The MPI itself is asked, with a request of a collective that it does itself and nobody else
// takes part in.
#pragma once

#include <array>

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// A nonblocking collective of the loaded MPI, of this rank with itself, as far along as one of ours is. Local; one
// thread.
class NativeTwin {
 public:
  enum class Progress { active, complete };
  // Errors that the MPI raises on the operation's communicator go to the error handler of `like`.
  NativeTwin(MPI_Comm like, Progress progress);
  NativeTwin(const NativeTwin&) = delete;
  NativeTwin& operator=(const NativeTwin&) = delete;
  // Completes the operation, unless its request is gone.
  ~NativeTwin();

  [[nodiscard]] MPI_Request* request() { return &request_; }
  // The call has freed or collected the request: the MPI has not refused it. The code does not tell, as MPICH 5 returns
  // success once the program's own error handler has returned.
  [[nodiscard]] bool is_gone() const;

 private:
  MPI_Comm comm_;
  MPI_Request request_;
  std::array<char, 2> sent_{};  // on both sides it has itself
  std::array<char, 2> received_{};
};

}  // namespace outrigger::mpi
