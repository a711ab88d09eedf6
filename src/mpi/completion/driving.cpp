#include "mpi/completion/driving.hpp"

#include <atomic>
#include <mutex>

#include "mpi/native/constants.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constinit std::mutex driving_mutex;
constinit std::atomic<bool> is_made = false;
MPI_Request the_driver{};

int query_nothing(void* /*state*/, MPI_Status* status) {
  real().Status_set_elements(status, constants().byte, 0);
  real().Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}

int free_nothing(void* /*state*/) {
  return MPI_SUCCESS;
}

int cancel_nothing(void* /*state*/, int /*complete*/) {
  return MPI_SUCCESS;
}

}  // namespace

MPI_Request driving_request() {
  if (is_made.load(std::memory_order_acquire)) return the_driver;
  const std::scoped_lock lock(driving_mutex);
  if (!is_made.load(std::memory_order_relaxed)) {
    const int code = real().Grequest_start(&query_nothing, &free_nothing, &cancel_nothing, nullptr, &the_driver);
    if (code != MPI_SUCCESS) die("%s could not create a generalized request (code %d)", kAbiName, code);
    is_made.store(true, std::memory_order_release);
  }
  return the_driver;
}

void end_driving() {
  const std::scoped_lock lock(driving_mutex);
  if (!is_made.exchange(false)) return;
  real().Grequest_complete(the_driver);
  real().Wait(&the_driver, MPI_STATUS_IGNORE);
}

}  // namespace outrigger::mpi
