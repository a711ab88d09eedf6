// Which transports of UCX service processes may use, between nodes and to the ranks of a DPU's host.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include "protocol/options/settings.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger {

// OUTRIGGER_UCX_TLS, written as UCX_TLS; empty: not set.
[[nodiscard]] inline std::string allowed_transports() {
  const char* transports = std::getenv(setting::kTransports);
  return transports == nullptr ? std::string() : std::string(transports);
}

// As configured by the keeper, whose environment is the host's; a DPU's own says more of the DPU.
[[nodiscard]] inline std::string allowed_transports(const ConfigureBody& configuration) {
  const std::string own = allowed_transports();
  const auto& sent = configuration.transports;
  return own.empty() ? std::string(sent.data(), ::strnlen(sent.data(), sent.size())) : own;
}

}  // namespace outrigger
