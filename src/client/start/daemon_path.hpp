// Where outriggerd is.
#pragma once

#include <string>

#include "base/result.hpp"

namespace outrigger::client {

// OUTRIGGER_DAEMON, or beside this library as it is built and installed.
[[nodiscard]] Result<std::string> find_daemon();

}  // namespace outrigger::client
