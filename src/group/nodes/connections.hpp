// The connections between members of different nodes, three for each pair; and a fourth between the first members of
// nodes, if the group has service processes. The member with the higher rank connects.
// Both show that they know the other's token, which only the store tells.
//
//     collectives   bytes of collectives
//     messages      bytes of sends and receives
//     watch         failures; it breaks when a process ends
//     services      for the service processes of the two nodes
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "group/layout.hpp"
#include "group/nodes/own_address.hpp"

namespace outrigger::group {

inline constexpr std::size_t kChannels = 4;
enum class Channel : std::uint32_t { collectives, messages, watch, services };

using Token = std::array<std::byte, 16>;

// Where a member listens.
struct Contact {
  Address address{};
  Token token{};
};

class Listener {
 public:
  [[nodiscard]] static Result<Listener> open();
  [[nodiscard]] const Contact& contact() const { return contact_; }

  // By rank, of all members of other nodes. Others do the same.
  using Connections = std::vector<std::array<UniqueFd, kChannels>>;
  [[nodiscard]] Result<Connections> connect(const Layout& layout, const std::vector<Contact>& contacts,
                                            bool has_services, std::chrono::milliseconds timeout) const;

 private:
  Listener(UniqueFd socket, const Contact& contact) : socket_(std::move(socket)), contact_(contact) {}

  UniqueFd socket_;
  Contact contact_;
};

}  // namespace outrigger::group
