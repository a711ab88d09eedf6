// `outriggerd info`: what this machine offers, and why not more.
#pragma once

#include <string>

namespace outrigger::service {

// JSON: version, kernel, cores, default cores of service processes, cross-memory attach and why not.
[[nodiscard]] std::string describe_machine();

// Tests if one process of this user can read and write another's memory: empty if so, else why not.
[[nodiscard]] std::string why_no_cross_memory();

}  // namespace outrigger::service
