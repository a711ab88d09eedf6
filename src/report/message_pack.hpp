// Writes MessagePack (msgpack.org), which is compact and has readers in every language. Only the types of live figures.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace outrigger::report {

// Values are written one after the other; a list or map begins with the number of its values (map: of its pairs).
class MessagePack {
 public:
  void list(std::size_t length) { head(0x90, 15, 0xdc, length); }
  void map(std::size_t pairs) { head(0x80, 15, 0xde, pairs); }
  void number(std::uint64_t value) {
    if (value < 0x80) return byte(static_cast<std::uint8_t>(value));
    if (value <= 0xff) return big_endian(0xcc, value, 1);
    if (value <= 0xffff) return big_endian(0xcd, value, 2);
    value <= 0xffffffff ? big_endian(0xce, value, 4) : big_endian(0xcf, value, 8);
  }
  void signed_number(std::int64_t value) {
    if (value >= 0) return number(static_cast<std::uint64_t>(value));
    big_endian(0xd3, static_cast<std::uint64_t>(value), 8);
  }
  void real(double value) { big_endian(0xcb, std::bit_cast<std::uint64_t>(value), 8); }
  void boolean(bool value) { byte(value ? 0xc3 : 0xc2); }
  void nil() { byte(0xc0); }
  // Replaces everything but printable ASCII by a question mark: names come from programs, in any encoding.
  void text(std::string_view value) {
    value.size() < 32 ? byte(static_cast<std::uint8_t>(0xa0 | value.size())) : big_endian(0xdb, value.size(), 4);
    for (const char letter : value) byte(letter >= 0x20 && letter < 0x7f ? static_cast<std::uint8_t>(letter) : '?');
  }
  void field(std::string_view name, std::uint64_t value) {
    text(name);
    number(value);
  }
  void field(std::string_view name, std::string_view value) {
    text(name);
    text(value);
  }

  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }

 private:
  void byte(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void big_endian(std::uint8_t kind, std::uint64_t value, unsigned bytes) {
    byte(kind);
    while (bytes-- > 0) byte(static_cast<std::uint8_t>(value >> (8 * bytes)));
  }
  // `longer` has 16 bits of length, the one after it 32.
  void head(std::uint8_t shorter, std::size_t shortest, std::uint8_t longer, std::size_t length) {
    if (length <= shortest) return byte(static_cast<std::uint8_t>(shorter | length));
    length <= 0xffff ? big_endian(longer, length, 2) : big_endian(static_cast<std::uint8_t>(longer + 1), length, 4);
  }

  std::vector<std::byte> bytes_;
};

}  // namespace outrigger::report
