// Which build this is: its release and the number of its protocol, in one number. Whatever two processes begin with
// says it, so that those of different builds refuse each other before anything else is read, and name both.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger {

// Of messages between processes and of what they share; raised by whoever changes one.
inline constexpr std::uint32_t kProtocolVersion = 25;

// Release a.b.c of protocol p is a << 24 | b << 16 | c << 8 | p. Builds that knew only protocols said p.
[[nodiscard]] std::uint32_t build_version();

// "0.1.0 (protocol 21)".
[[nodiscard]] std::string build_version_text(std::uint32_t version);

// Of one that is not this: "the other end is of another version, 0.2.0 (protocol 22); this one is 0.1.0 (protocol 21)".
[[nodiscard]] std::string other_build_text(std::uint32_t theirs);

}  // namespace outrigger
