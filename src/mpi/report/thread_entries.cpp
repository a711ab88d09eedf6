#include "mpi/report/thread_entries.hpp"

namespace outrigger::mpi {
namespace {

[[gnu::tls_model("initial-exec")]] constinit thread_local MessageEntry entry_here;

}  // namespace

MessageEntry& message_entry() {
  return entry_here;
}

}  // namespace outrigger::mpi
