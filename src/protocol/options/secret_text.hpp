// Text form of the secret of a job's DPUs.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger {

// From 32 hexadecimal digits, without surrounding white space. They are the secret itself, so they must be random.
[[nodiscard]] Result<Secret> secret_of_text(std::string_view text);

// Reads a line of standard input. Error: no line, or not a secret.
[[nodiscard]] Result<Secret> read_secret_line();

}  // namespace outrigger
