// HMAC-SHA256 (RFC 2104, FIPS 198-1) by OpenSSL's libcrypto: proves knowledge of a secret without sending it.
//
// Safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/wire/control.hpp"

namespace outrigger::proof {

using Mac = std::array<std::uint8_t, 32>;
using Key = std::array<std::uint8_t, 32>;
using Nonce = std::array<std::uint8_t, 32>;

// The text to prove: a label that is unique per use, then fields. Fields of variable size follow their length, so that
// different lists of fields are never the same bytes.
class Statement {
 public:
  explicit Statement(std::string_view label) { text(label); }
  Statement& number(std::uint64_t value);
  Statement& text(std::string_view value);
  template <std::size_t N>
  Statement& bytes(const std::array<std::uint8_t, N>& value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  [[nodiscard]] std::span<const std::uint8_t> all() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

[[nodiscard]] Mac hmac(std::span<const std::uint8_t> key, std::span<const std::uint8_t> bytes);
[[nodiscard]] inline Mac hmac(std::span<const std::uint8_t> key, const Statement& statement) {
  return hmac(key, statement.all());
}
// In constant time.
[[nodiscard]] bool same(std::span<const std::uint8_t> left, std::span<const std::uint8_t> right);

// From the kernel's random bytes.
[[nodiscard]] Nonce fresh_nonce();

// A secret for one use: knowing it tells nothing about the original.
[[nodiscard]] Secret derived_secret(const Secret& secret, std::string_view use);

}  // namespace outrigger::proof
