// Encoding and decoding of messages between service processes: a message has one list of fields, for Writer and Reader
// alike.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "protocol/wire/peer_messages.hpp"

namespace outrigger::peer {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void value(T value) {
    static_assert(std::is_integral_v<T>);
    const std::size_t at = out_.size();
    out_.resize(at + sizeof(T));
    std::memcpy(out_.data() + at, &value, sizeof(T));
  }
  template <class Tag, class Rep>
  void value(StrongId<Tag, Rep> id) {
    value(id.value());
  }
  // An enumeration, as the given integer type.
  template <class Wire, class Enum>
  void code(Enum value_of) {
    value(static_cast<Wire>(value_of));
  }
  template <class T>
  void reserved() {
    value(T{0});
  }

 private:
  std::vector<std::byte>& out_;
};

// Reads past the end yield zeros and are remembered.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  void value(T& value) {
    static_assert(std::is_integral_v<T>);
    value = T{};
    if (rest_.size() < sizeof(T)) {
      valid_ = false;
      return;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
  }
  template <class Tag, class Rep>
  void value(StrongId<Tag, Rep>& id) {
    Rep raw{};
    value(raw);
    id = StrongId<Tag, Rep>{raw};
  }
  template <class Wire, class Enum>
  void code(Enum& value_of) {
    Wire raw{};
    value(raw);
    if (is_code<Enum>(raw)) {
      value_of = static_cast<Enum>(raw);
    } else {
      valid_ = false;
    }
  }
  template <class T>
  void reserved() {
    T raw{};
    value(raw);
    if (raw != 0) valid_ = false;
  }
  [[nodiscard]] std::size_t remaining() const { return rest_.size(); }
  void refuse() { valid_ = false; }
  [[nodiscard]] bool valid() const { return valid_; }

 private:
  // Accepts unknown collectives and algorithms: another version may have more, and the digest detects disagreement.
  template <class Enum>
  [[nodiscard]] static bool is_code(std::uint32_t raw) {
    if constexpr (std::is_same_v<Enum, CompletionStatus>)
      return raw <= static_cast<std::uint32_t>(Enum::passed_natively);
    if constexpr (std::is_same_v<Enum, Reach>) return raw < kReachCount;
    if constexpr (std::is_same_v<Enum, Where>) return raw >= 1 && raw <= static_cast<std::uint32_t>(Where::forwarded);
    if constexpr (std::is_same_v<Enum, Side>) return raw == 1 || raw == 2;
    if constexpr (std::is_same_v<Enum, bool>) return raw <= 1;
    return true;
  }

  std::span<const std::byte> rest_;
  bool valid_ = true;
};

// A message; const while it is written.
template <class M, class Plain>
concept Of = std::is_same_v<std::remove_const_t<M>, Plain>;

// In front of every message: version, kind, header.
void write_header(Writer& out, std::uint8_t kind, const Header& header);
struct Beginning {
  std::uint8_t kind = 0;
  Header header;
};
// nullopt for bytes that write_header() would not have written.
[[nodiscard]] std::optional<Beginning> read_header(Reader& in);

}  // namespace outrigger::peer
