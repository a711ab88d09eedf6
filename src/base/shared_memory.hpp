// Shared memory between processes of a node: anonymous memfds, sealed so that nobody can shrink them under a reader
// (which would be a SIGBUS), and mappings that unmap themselves. No file is ever created.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace outrigger {

// A shared read-write mapping. Owns the address range, not the descriptor.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  // Maps `bytes` from the start of `fd`. Children made by fork() do not inherit the range.
  [[nodiscard]] static Result<Mapping> map(int fd, std::uint64_t bytes);
  // Zeroed memory of this process alone.
  [[nodiscard]] static Result<Mapping> anonymous(std::uint64_t bytes);

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool valid() const { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

enum class Backing {
  reserved,  // the memory is there before the call returns: a write never fails later for want of it
  on_touch,  // pages come when they are first written
};

// A zeroed memfd of `bytes` that can neither shrink nor grow, close-on-exec. `name` is for /proc only. An error when
// the limit on file sizes, or with `reserved` the memory, does not reach.
[[nodiscard]] Result<UniqueFd> create_sealed_memory(const std::string& name, std::uint64_t bytes, Backing backing);

// Sealed memory that holds a copy of `bytes` (at least one), to be handed to another process.
[[nodiscard]] Result<UniqueFd> share_bytes(const std::string& name, std::span<const std::byte> bytes);
// A copy of what another process has shared. Errors: not safe to map, or longer than `most`.
[[nodiscard]] Result<std::vector<std::byte>> read_shared_bytes(int fd, std::uint64_t bytes, std::uint64_t most);

// Is `fd`, from another process, safe to map for `bytes`: sealed against shrinking and large enough?
[[nodiscard]] Status check_sealed_memory(int fd, std::uint64_t bytes);

}  // namespace outrigger
