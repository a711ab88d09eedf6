// Debug log of keeper and service processes: off unless OUTRIGGER_LOG names a level and a file.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace outrigger::service {

// `who` is part of every line. Never fails: without a usable file there is no log.
void start_log(const std::string& who);

}  // namespace outrigger::service
