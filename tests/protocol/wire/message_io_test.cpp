#include "protocol/wire/message_io.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace outrigger {
namespace {

enum class Colour : std::uint8_t { red = 1, green = 2 };

struct Point {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  bool operator==(const Point&) const = default;
};

struct Named {
  std::string name;
  bool operator==(const Named&) const = default;
  static constexpr void fields(auto& io, auto& named) { io.list(named.name, 8); }
};

struct Picture {
  Colour colour = Colour::red;
  bool filled = false;
  std::vector<Point> points;
  std::vector<Named> names;
  std::vector<std::vector<std::byte>> layers;
  std::optional<Named> author;
  bool operator==(const Picture&) const = default;
  static constexpr void fields(auto& io, auto& picture) {
    io.constant(std::uint16_t{0x5049});
    io.code(picture.colour, Colour::red, Colour::green);
    io.flag(picture.filled);
    io.list(picture.points, 3);
    io.require(picture.filled || !picture.points.empty());
    io.list(picture.names, 2);
    io.list(picture.layers, 2, [&io](auto& layer) { io.list(layer, 4); });
    io.optional(picture.author);
  }
};

struct View {
  std::span<const std::byte> bytes;
  static constexpr void fields(auto& io, auto& view) { io.list(view.bytes, 100); }
};

Picture some_picture() {
  return {Colour::green, false, {{1, 2}, {3, 4}}, {{"a"}, {""}}, {{}, std::vector<std::byte>(4)}, Named{"me"}};
}

bool is_refused(const Picture& picture) {
  return !decoded<Picture>(encoded(picture)) && !parse<Picture>(encoded(picture));
}

TEST(MessageIo, WhatIsWrittenIsRead) {
  EXPECT_EQ(decoded<Picture>(encoded(some_picture())), some_picture());
  Picture plain = some_picture();
  plain.author.reset();
  EXPECT_EQ(decoded<Picture>(encoded(plain)), plain);
}

TEST(MessageIo, BytesAreLittleEndianAndWithoutGaps) {
  const Picture picture{Colour::green, true, {{0x01020304, 5}}, {{"ab"}}, {}, {}};
  const std::vector<int> wanted{0x49, 0x50, 2, 1, 1, 0, 0, 0, 4,   3,   2, 1, 5, 0, 0, 0,
                                1,    0,    0, 0, 2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 0};
  std::vector<int> written;
  for (const std::byte byte : encoded(picture)) written.push_back(std::to_integer<int>(byte));
  EXPECT_EQ(written, wanted);
  EXPECT_EQ(encoded_bytes(picture), wanted.size());
}

TEST(MessageIo, ACutMessageIsIncompleteAndNoMessage) {
  const std::vector<std::byte> whole = encoded(some_picture());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer finds reads past its end.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(decoded<Picture>(cut)) << length;
    const auto parsed = parse<Picture>(cut);
    ASSERT_TRUE(parsed) << length << ": more may come";
    EXPECT_FALSE(parsed.value()) << length;
  }
}

TEST(MessageIo, WhatFollowsIsAnotherMessage) {
  std::vector<std::byte> bytes = encoded(some_picture());
  const std::size_t first = bytes.size();
  append(bytes, Point{7, 8});
  EXPECT_FALSE(decoded<Picture>(bytes));
  EXPECT_EQ(parse<Picture>(bytes).value()->bytes, first);
  std::span<const std::byte> rest(bytes);
  EXPECT_EQ(take_first<Picture>(rest), some_picture());
  EXPECT_EQ(take_first<Point>(rest), (Point{7, 8}));
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(take_first<std::uint8_t>(rest));
}

TEST(MessageIo, WhatCannotBeIsRefused) {
  const auto with = [](const auto& change) {
    Picture picture = some_picture();
    change(picture);
    return picture;
  };
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.colour = static_cast<Colour>(0); })));
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.colour = static_cast<Colour>(3); })));
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.points.clear(); })));
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.points.resize(4); })));
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.names.resize(3); })));
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.names[0].name = "too long a name"; })));
  EXPECT_TRUE(is_refused(with([](Picture& p) { p.layers[1].resize(5); })));
  std::vector<std::byte> bytes = encoded(some_picture());
  bytes[3] = std::byte{2};  // the flag
  EXPECT_FALSE(parse<Picture>(bytes));
  bytes = encoded(some_picture());
  bytes[0] ^= std::byte{1};  // the constant
  EXPECT_FALSE(parse<Picture>(bytes));
}

TEST(MessageIo, ALongLengthTakesNoMemory) {
  std::vector<std::byte> bytes = encoded(View());
  bytes[0] = std::byte{100};
  EXPECT_FALSE(decoded<View>(bytes));
  Reader in(bytes);
  std::vector<std::uint64_t> numbers;
  in.list(numbers, ~std::uint32_t{0});
  EXPECT_EQ(numbers.capacity(), 0U);
  EXPECT_FALSE(in.good());
  EXPECT_FALSE(in.refused()) << "they may still come";
}

TEST(MessageIo, AViewIsOfTheBytesThatAreRead) {
  const std::vector<std::byte> three(3, std::byte{9});
  const std::vector<std::byte> bytes = encoded(View{three});
  const std::optional<View> view = decoded<View>(bytes);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->bytes.data(), bytes.data() + 4);
  EXPECT_EQ(view->bytes.size(), 3U);
}

TEST(MessageIo, AlternativesAreToldByTheirIndex) {
  using Body = std::variant<Point, Named>;
  EXPECT_EQ(decoded_alternative<Body>(1, encoded(Named{"x"})), Body(Named{"x"}));
  EXPECT_FALSE(decoded_alternative<Body>(0, encoded(Named{"x"})));
  EXPECT_FALSE(decoded_alternative<Body>(2, encoded(Named{"x"})));
}

}  // namespace
}  // namespace outrigger
