// Describes the fields of a struct in one line of text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace outrigger {

// "NAME SIZE/ALIGNMENT: FIELD OFFSET+SIZE, ..."
template <class T>
class Layout {
 public:
  explicit Layout(const std::string& name)
      : text_(name + " " + std::to_string(sizeof(T)) + "/" + std::to_string(alignof(T)) + ":") {
    static_assert(std::is_standard_layout_v<T>);
  }

  template <class Member>
  Layout& field(const std::string& name, Member T::*member) {
    const T value{};
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    const auto* there = reinterpret_cast<const std::byte*>(&(value.*member));
    text_ += " " + name + " " + std::to_string(there - begin) + "+" + std::to_string(sizeof(Member)) + ",";
    return *this;
  }

  // Without the last comma, with an end of line.
  [[nodiscard]] std::string line() const { return text_.substr(0, text_.size() - 1) + "\n"; }

 private:
  std::string text_;
};

// The same for a struct and the names of its fields: OUTRIGGER_LAYOUT(Struct, field, field, ...).
#define OUTRIGGER_LAYOUT(type, ...) Layout<type>(#type) OUTRIGGER_REPEAT(OUTRIGGER_FIELDS(type, __VA_ARGS__)).line()
#define OUTRIGGER_FIELDS(type, name, ...) \
  .field(#name, &type::name) __VA_OPT__(OUTRIGGER_FIELDS_AGAIN OUTRIGGER_PARENTHESES(type, __VA_ARGS__))
#define OUTRIGGER_FIELDS_AGAIN() OUTRIGGER_FIELDS
#define OUTRIGGER_PARENTHESES ()
// The preprocessor rescans its argument 63 times, which limits the number of fields.
#define OUTRIGGER_REPEAT(...) OUTRIGGER_REPEAT5(OUTRIGGER_REPEAT5(__VA_ARGS__))
#define OUTRIGGER_REPEAT5(...) OUTRIGGER_REPEAT4(OUTRIGGER_REPEAT4(__VA_ARGS__))
#define OUTRIGGER_REPEAT4(...) OUTRIGGER_REPEAT3(OUTRIGGER_REPEAT3(__VA_ARGS__))
#define OUTRIGGER_REPEAT3(...) OUTRIGGER_REPEAT2(OUTRIGGER_REPEAT2(__VA_ARGS__))
#define OUTRIGGER_REPEAT2(...) OUTRIGGER_REPEAT1(OUTRIGGER_REPEAT1(__VA_ARGS__))
#define OUTRIGGER_REPEAT1(...) __VA_ARGS__

// "NAME: BYTES in hexadecimal"
[[nodiscard]] inline std::string line_of_bytes(const std::string& name, std::span<const std::byte> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text = name + ": ";
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4U];
    text += digits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text + "\n";
}

}  // namespace outrigger
