#include "mpi/job/standing.hpp"

#include <atomic>

namespace outrigger::mpi {
namespace {

constinit std::atomic<Stage> current_stage = Stage::before_init;
constinit std::atomic<const char*> native_reason = "MPI_Init has not been called";

}  // namespace

Stage stage() {
  return current_stage.load(std::memory_order_acquire);
}

const char* why_inactive() {
  return native_reason.load(std::memory_order_acquire);
}

void note_started(const std::string& why_native) {
  // Once per process, and needed until its end.
  native_reason.store(why_native.empty() ? "" : (new std::string(why_native))->c_str(), std::memory_order_release);
  current_stage.store(Stage::running, std::memory_order_release);
}

void note_finalized() {
  native_reason.store("MPI_Finalize has been called", std::memory_order_release);
  current_stage.store(Stage::finalized, std::memory_order_release);
}

}  // namespace outrigger::mpi
