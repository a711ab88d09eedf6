// How messages become bytes and come back. A message names its fields once, for Writer and Reader alike:
//
//   struct Finished {
//     WorldRank rank;
//     CompletionStatus status = CompletionStatus::ok;
//     static constexpr void fields(auto& io, auto& finished) {
//       io.value(finished.rank);
//       io.code(finished.status, CompletionStatus::ok, CompletionStatus::passed_natively);
//       io.require(finished.rank.value() < kMaxRanks);
//     }
//   };
//
// A struct of fixed layout may do without: its bytes are the message, and its receiver checks the values. Numbers
// are little-endian, and nothing is between them. Memory that several processes have mapped at once is no message.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace outrigger {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

// Without padding, whose bytes would be those of other memory. Codes and flags have values that must be checked.
template <class T>
concept FixedLayout = std::is_same_v<T, std::byte> ||
                      (std::is_trivially_copyable_v<T> && !std::is_enum_v<T> && !std::is_same_v<T, bool> &&
                       (std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>));

template <class T, class Io>
concept HasFields = requires(Io& io, T& message) { std::remove_const_t<T>::fields(io, message); };

template <class List, class Io>
inline constexpr bool is_plain = FixedLayout<typename List::value_type> && !HasFields<typename List::value_type, Io>;

// Writes to memory that has room for the message, or only counts its bytes.
class Writer {
 public:
  constexpr Writer() = default;
  explicit Writer(std::byte* to) : to_(to) {}

  constexpr void value(const auto&... values) { (one(values), ...); }
  template <class Enum>
  constexpr void code(Enum code, Enum /*first*/ = {}, Enum /*last*/ = {}) {
    value(static_cast<std::underlying_type_t<Enum>>(code));
  }
  constexpr void flag(bool flag) { value(static_cast<std::uint8_t>(flag)); }
  constexpr void constant(const auto& constant) { value(constant); }
  constexpr void require(bool /*condition*/) {}
  template <class T>
  constexpr void optional(const std::optional<T>& part) {
    flag(part.has_value());
    if (part) value(*part);
  }
  // Behind its length, of 32 bits. `each`: writes an element; without it, they are values.
  template <class List>
  constexpr void list(const List& list, std::size_t /*most*/) {
    value(static_cast<std::uint32_t>(list.size()));
    if constexpr (is_plain<List, Writer>) {
      put(list.data(), list.size() * sizeof(typename List::value_type));
    } else {
      for (const auto& item : list) value(item);
    }
  }
  template <class List, class Each>
  constexpr void list(const List& list, std::size_t /*most*/, const Each& each) {
    value(static_cast<std::uint32_t>(list.size()));
    for (const auto& item : list) each(item);
  }
  [[nodiscard]] constexpr std::size_t bytes() const { return bytes_; }

 private:
  template <class T>
  constexpr void one(const T& value) {
    if constexpr (HasFields<const T, Writer>) {
      T::fields(*this, value);
    } else {
      static_assert(FixedLayout<T>);
      put(&value, sizeof(value));
    }
  }
  constexpr void put(const void* from, std::size_t bytes) {
    if (to_ != nullptr && bytes != 0) std::memcpy(to_ + bytes_, from, bytes);
    bytes_ += bytes;
  }

  std::byte* to_ = nullptr;
  std::size_t bytes_ = 0;
};

// After the first fault, which is remembered, it yields zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  void value(auto&... values) { (one(values), ...); }
  // Any code, if no limits are given: another version may have more.
  template <class Enum>
  void code(Enum& code) {
    std::underlying_type_t<Enum> raw{};
    value(raw);
    code = static_cast<Enum>(raw);
  }
  template <class Enum>
  void code(Enum& code, Enum first, Enum last) {
    this->code(code);
    require(code >= first && code <= last);
    if (!good()) code = first;
  }
  void flag(bool& flag) {
    std::uint8_t raw = 0;
    value(raw);
    require(raw <= 1);
    flag = raw == 1;
  }
  template <class T>
  void constant(const T& constant) {
    T raw{};
    value(raw);
    require(raw == constant);
  }
  void require(bool condition) {
    if (!condition) fail(Fault::refused);
  }
  template <class T>
  void optional(std::optional<T>& part) {
    bool has = false;
    flag(has);
    if (has) value(part.emplace());
    if (!has) part.reset();
  }
  template <class List>
  void list(List& list, std::size_t most) {
    if constexpr (is_plain<List, Reader>) {
      take_list(list, length(most));
    } else {
      this->list(list, most, [this](auto& item) { this->value(item); });
    }
  }
  template <class List, class Each>
  void list(List& list, std::size_t most, const Each& each) {
    list.clear();
    for (std::uint32_t left = length(most); left > 0 && good(); --left) each(list.emplace_back());
  }

  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  [[nodiscard]] bool good() const { return fault_ == Fault::none; }
  // By a value that cannot be, and not because bytes are missing.
  [[nodiscard]] bool refused() const { return fault_ == Fault::refused; }

 private:
  enum class Fault : std::uint8_t { none, cut, refused };

  void fail(Fault fault) {
    if (good()) fault_ = fault;
  }
  template <class T>
  void one(T& value) {
    if constexpr (HasFields<T, Reader>) {
      T::fields(*this, value);
    } else {
      static_assert(FixedLayout<T>);
      if (!get(&value, sizeof(value))) value = T{};
    }
  }
  bool get(void* to, std::size_t bytes) {
    if (bytes > rest_.size()) fail(Fault::cut);
    if (!good()) return false;
    if (bytes != 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return true;
  }
  [[nodiscard]] std::uint32_t length(std::size_t most) {
    std::uint32_t length = 0;
    value(length);
    require(length <= most);
    return good() ? length : 0;
  }
  // Makes room only for what has come.
  template <class List>
  void take_list(List& list, std::size_t length) {
    constexpr std::size_t kItem = sizeof(typename List::value_type);
    if (length > rest_.size() / kItem) {
      fail(Fault::cut);
      length = 0;
    }
    list.resize(length);
    (void)get(list.data(), length * kItem);
  }
  // A view of the bytes that are read.
  void take_list(std::span<const std::byte>& view, std::size_t length) {
    if (length > rest_.size()) fail(Fault::cut);
    view = good() ? rest_.first(length) : std::span<const std::byte>();
    rest_ = rest_.subspan(view.size());
  }

  std::span<const std::byte> rest_;
  Fault fault_ = Fault::none;
};

template <class M>
[[nodiscard]] constexpr std::size_t encoded_bytes(const M& message) {
  Writer counter;
  counter.value(message);
  return counter.bytes();
}

template <class M>
void append(std::vector<std::byte>& out, const M& message) {
  const std::size_t at = out.size();
  out.resize(at + encoded_bytes(message));
  Writer writer(out.data() + at);
  writer.value(message);
}

template <class M>
[[nodiscard]] std::vector<std::byte> encoded(const M& message) {
  std::vector<std::byte> bytes;
  append(bytes, message);
  return bytes;
}

// Removes the message at the front of `rest`. nullopt, and nothing is removed: none is there.
template <class M>
[[nodiscard]] std::optional<M> take_first(std::span<const std::byte>& rest) {
  Reader in(rest);
  M message{};
  in.value(message);
  if (!in.good()) return std::nullopt;
  rest = in.rest();
  return message;
}

// nullopt: bytes that the message's Writer would not have written.
template <class M>
[[nodiscard]] std::optional<M> decoded(std::span<const std::byte> bytes) {
  std::optional<M> message = take_first<M>(bytes);
  return bytes.empty() ? std::move(message) : std::nullopt;
}

// One of a stream, and its length.
template <class M>
struct Parsed {
  M message{};
  std::size_t bytes = 0;
};

// The first message of a stream's bytes. nullopt: incomplete. Error: not a message.
template <class M>
[[nodiscard]] Result<std::optional<Parsed<M>>> parse(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Parsed<M> parsed;
  in.value(parsed.message);
  if (in.refused()) return Error{"sent a malformed message"};
  if (!in.good()) return std::optional<Parsed<M>>();
  parsed.bytes = bytes.size() - in.rest().size();
  return std::optional(std::move(parsed));
}

// The alternative with this index.
template <class Body, std::size_t place = 0>
[[nodiscard]] std::optional<Body> decoded_alternative(std::size_t index, std::span<const std::byte> bytes) {
  if constexpr (place < std::variant_size_v<Body>) {
    if (index != place) return decoded_alternative<Body, place + 1>(index, bytes);
    if (auto body = decoded<std::variant_alternative_t<place, Body>>(bytes)) return std::move(*body);
  }
  return std::nullopt;
}

}  // namespace outrigger
