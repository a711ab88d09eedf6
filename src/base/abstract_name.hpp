// The name of a Unix socket in the abstract namespace: without a file, and freed by the kernel when the socket closes.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace outrigger {

class AbstractName {
 public:
  // nullopt if the text is too long.
  [[nodiscard]] static std::optional<AbstractName> of(std::string_view text) {
    AbstractName name;
    if (text.size() >= sizeof(name.address_.sun_path)) return std::nullopt;
    name.address_.sun_family = AF_UNIX;
    std::memcpy(name.address_.sun_path + 1, text.data(), text.size());
    name.bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    return name;
  }
  // For bind() and connect().
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] socklen_t bytes() const { return bytes_; }

 private:
  sockaddr_un address_{};
  socklen_t bytes_ = 0;
};

}  // namespace outrigger
