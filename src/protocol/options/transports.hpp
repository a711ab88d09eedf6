// UCX transports that service processes may use, between nodes and to the ranks of a DPU's host.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include "protocol/options/settings.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger {

// OUTRIGGER_UCX_TLS, in the format of UCX_TLS; empty: not set.
[[nodiscard]] inline std::string allowed_transports() {
  const char* transports = std::getenv(setting::kTransports);
  return transports == nullptr ? std::string() : std::string(transports);
}

// From the keeper's configuration, which has the host's environment; the process's own variable wins, as a DPU's
// describes the DPU.
[[nodiscard]] inline std::string allowed_transports(const ConfigureBody& configuration) {
  const std::string own = allowed_transports();
  const auto& sent = configuration.transports;
  return own.empty() ? std::string(sent.data(), ::strnlen(sent.data(), sent.size())) : own;
}

}  // namespace outrigger
