// Shared memory between processes of a node: anonymous memfds, sealed so that no process can shrink them under a reader
// (SIGBUS), and mappings that unmap themselves. Creates no files.
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
  // Zeroed private memory.
  [[nodiscard]] static Result<Mapping> anonymous(std::uint64_t bytes);

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool valid() const { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

enum class Backing {
  reserved,  // allocated before the call returns: a later write never fails for lack of memory
  on_touch,  // pages are allocated at the first write
};

// A zeroed close-on-exec memfd of `bytes` that can neither shrink nor grow. `name` appears only in /proc. Error: the
// file size limit, or for `reserved` the memory, is too small.
[[nodiscard]] Result<UniqueFd> create_sealed_memory(const std::string& name, std::uint64_t bytes, Backing backing);

// Sealed memory with a copy of `bytes` (at least one), for another process.
[[nodiscard]] Result<UniqueFd> share_bytes(const std::string& name, std::span<const std::byte> bytes);
// A copy of another process's shared bytes. Errors: not safe to map, or longer than `most`.
[[nodiscard]] Result<std::vector<std::byte>> read_shared_bytes(int fd, std::uint64_t bytes, std::uint64_t most);

// Checks that another process's `fd` is safe to map for `bytes`: sealed against shrinking, and large enough.
[[nodiscard]] Status check_sealed_memory(int fd, std::uint64_t bytes);

}  // namespace outrigger
