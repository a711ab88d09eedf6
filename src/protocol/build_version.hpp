// Version of this build: its release and protocol in one number. Every first message between processes has it, so that
// different builds reject each other before they read anything else, and name both versions.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger {

// Version of messages between processes and of shared memory; raise it with each change.
inline constexpr std::uint32_t kProtocolVersion = 32;

// Release a.b.c of protocol p is a << 24 | b << 16 | c << 8 | p. Builds that knew only protocols sent p.
[[nodiscard]] std::uint32_t build_version();

[[nodiscard]] std::string build_version_text(std::uint32_t version);

// For a different build: "the other end is of another version, 0.2.0 (protocol 22); this one is 0.1.0 (protocol 21)".
[[nodiscard]] std::string other_build_text(std::uint32_t theirs);

}  // namespace outrigger
