// Exchanges between the ranks of MPI_COMM_WORLD in MPI_Init, once all of them are known to have the library.
//
// Uses nonblocking collectives and messages of the program's own MPI, with waits of this library (patience.hpp). If
// ranks share a core and the MPI spins, a blocking collective takes a scheduler time slice per message. No communicator
// is made, as that is such a collective, too. Nothing can match the program's messages: it has posted none before
// MPI_Init returns, and by then this rank has received all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace outrigger::mpi {

// Collective over the world. `all` has room for each rank's bytes, in the order of ranks; all ranks have the same size.
void gather_from_all(std::span<const std::byte> mine, std::span<std::byte> all);

// One value per rank, in the order of ranks. Collective over the world.
template <class T>
[[nodiscard]] std::vector<T> gather_from_all(const T& mine, std::uint32_t world_size) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(world_size);
  gather_from_all(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

// `text` of rank `root`, of at most 255 bytes. Collective over the world.
[[nodiscard]] std::string text_from(std::uint32_t root, const std::string& text);

// Concatenates the bytes of these ranks. Collective over them; `me` is this rank's index among them. Empty if one had
// nothing, or the total exceeds a message; all ranks get the same result.
[[nodiscard]] std::vector<std::byte> gather_among(std::span<const std::uint32_t> ranks, std::uint32_t me,
                                                  std::span<const std::byte> mine);

}  // namespace outrigger::mpi
