#include "mpi/collectives/known_native.hpp"

namespace outrigger::mpi::detail {

[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<KnownNative, kKnownNatives> known_natives;
[[gnu::tls_model("initial-exec")]] constinit thread_local ForGood found_for_good;

}  // namespace outrigger::mpi::detail
