// `outriggerd keep`: from the descriptors a rank has handed over to a running keeper.
#pragma once

#include "base/result.hpp"
#include "service/keeper/keeper.hpp"

namespace outrigger::service {

inline constexpr int kKeeperListenerFd = 3;
inline constexpr int kKeeperSecretFd = 4;

// Reads the secret from kKeeperSecretFd, goes to the background (the caller's process exits), and keeps until the job
// is over. Returns the exit status.
[[nodiscard]] int keep(KeeperConfig config);

}  // namespace outrigger::service
