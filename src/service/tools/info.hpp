// `outriggerd info`: what this machine offers, and why not more.
#pragma once

#include <string>

namespace outrigger::service {

// JSON: version, kernel, cores, cores service processes would take, cross-memory attach and why not.
[[nodiscard]] std::string describe_machine();

// One process of this user reading and writing another's memory: empty when it works, else why not.
[[nodiscard]] std::string why_no_cross_memory();

}  // namespace outrigger::service
