// What the ranks of MPI_COMM_WORLD tell each other in MPI_Init, once it is known that all of them have the library.
//
// By nonblocking collectives and messages of the program's own MPI, with waits of our own (patience.hpp): a blocking
// collective of ranks that share a core takes a time slice of the kernel for each of its messages where the MPI spins.
// No communicators are made for it, as making one is such a collective. Nothing of it can meet messages of the program:
// it has sent and posted none before MPI_Init returns, and who returns has received all that it was sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace outrigger::mpi {

// Collective over the world. `all` has room for as many bytes of each rank as `mine` has; in the order of ranks.
void gather_from_all(std::span<const std::byte> mine, std::span<std::byte> all);

// One of each rank, in the order of ranks. Collective over the world.
template <class T>
[[nodiscard]] std::vector<T> gather_from_all(const T& mine, std::uint32_t world_size) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(world_size);
  gather_from_all(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

// `text` of rank `root`, of at most 255 bytes. Collective over the world.
[[nodiscard]] std::string text_from(std::uint32_t root, const std::string& text);

// What each of these ranks has, one after the other. Collective over them; `me` is this one's place among them. Empty:
// one had nothing, or together it is more than a message can be; all of them see the same.
[[nodiscard]] std::vector<std::byte> gather_among(std::span<const std::uint32_t> ranks, std::uint32_t me,
                                                  std::span<const std::byte> mine);

}  // namespace outrigger::mpi
