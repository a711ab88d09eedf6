// The secret of a job's DPUs as people and launchers write it.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger {

// Of 32 hexadecimal digits, white space around them left out. They are the secret itself: they have to be random.
[[nodiscard]] Result<Secret> secret_of_text(std::string_view text);

// The line on standard input. Error: none, or not a secret.
[[nodiscard]] Result<Secret> read_secret_line();

}  // namespace outrigger
