// What of its own memory this process may touch, asked without touching it: for words to people, since the answer may
// be another a moment later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace outrigger {

enum class Access { read, write };

// The first address of the range that is not there for that; nothing: all is, as far as can be told. Not for memory
// that the kernel may fault in only in the process itself (userfaultfd).
[[nodiscard]] std::optional<std::uintptr_t> first_inaccessible(const void* begin, std::uint64_t bytes, Access access);

}  // namespace outrigger
