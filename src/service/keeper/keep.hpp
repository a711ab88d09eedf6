// `outriggerd keep`: starts a keeper from the descriptors that a rank has handed over.
#pragma once

#include "base/result.hpp"
#include "service/keeper/keeper.hpp"

namespace outrigger::service {

inline constexpr int kKeeperListenerFd = 3;
inline constexpr int kKeeperSecretFd = 4;

// Reads the secret from kKeeperSecretFd, goes to the background (the caller's process exits), and runs until the job is
// over. Returns the exit status.
[[nodiscard]] int keep(KeeperConfig config);

}  // namespace outrigger::service
