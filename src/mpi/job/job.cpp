#include "mpi/job/job.hpp"

namespace outrigger::mpi::detail {

constinit std::atomic<Job*> current_job = nullptr;
constinit std::atomic<Job*> intranode_job = nullptr;

}  // namespace outrigger::mpi::detail
