#include "protocol/wire/control.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <random>
#include <type_traits>

#include "protocol/shared/segment.hpp"

namespace outrigger {
namespace {

std::vector<UniqueFd> make_fds(std::size_t count) {
  std::vector<UniqueFd> fds;
  for (std::size_t i = 0; i < count; ++i) fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

struct MessageCase {
  ControlKind kind;
  std::size_t body_bytes;
  std::size_t fds;
};

const std::vector<MessageCase>& cases() {
  static const std::vector<MessageCase> all = {
      {ControlKind::hello, sizeof(HelloBody), 0},
      {ControlKind::welcome, sizeof(WelcomeBody), 2},
      {ControlKind::refused, sizeof(RefusedBody), 0},
      {ControlKind::region_add, sizeof(RegionBody), 1},
      {ControlKind::region_added, sizeof(RegionAddedBody), 0},
      {ControlKind::region_drop, sizeof(RegionBody), 0},
      {ControlKind::goodbye, sizeof(RankBody), 0},
      {ControlKind::configure, sizeof(ConfigureBody), 0},
      {ControlKind::core_share, sizeof(CoreShareBody), 0},
      {ControlKind::peer_ring, sizeof(PeerRingBody), 3},
      {ControlKind::rank_joined, sizeof(RankJoinedBody), 2},
      {ControlKind::rank_attached, sizeof(RankAttachedBody), 0},
      {ControlKind::rank_left, sizeof(RankLeftBody), 0},
      {ControlKind::fault_report, sizeof(FaultReportBody), 0},
      {ControlKind::wire_address, sizeof(SharedBytesBody), 1},
      {ControlKind::node_descriptor, sizeof(SharedBytesBody), 1},
      {ControlKind::job_map, sizeof(SharedBytesBody), 1},
      {ControlKind::job_map_taken, sizeof(JobMapTakenBody), 0},
      {ControlKind::introduced, sizeof(IntroducedBody), 0},
      {ControlKind::heartbeat, sizeof(RankBody), 1},
      {ControlKind::degraded, sizeof(RankBody), 0},
      {ControlKind::leave_dpu, sizeof(RankBody), 2},
      {ControlKind::left_dpu, sizeof(RankBody), 0},
      {ControlKind::trace_settle, sizeof(RankBody), 0},
      {ControlKind::trace, sizeof(RankBody), 1},
  };
  return all;
}

std::vector<std::byte> random_bytes(std::size_t count) {
  static std::mt19937 random(11);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

template <class... Bodies>
constexpr bool kNoPadding = (std::has_unique_object_representations_v<Bodies> && ...);
// Padding would send uninitialized memory to the other side.
static_assert(kNoPadding<HelloBody, WelcomeBody, RegionBody, RegionAddedBody, ConfigureBody, CoreShareBody,
                         PeerRingBody, RankJoinedBody, RankAttachedBody, RankBody, RankLeftBody, SharedBytesBody,
                         JobMapTakenBody, ControlHeader, SlotRequestBody, SlotResult>);

TEST(Control, EveryKindGoesRoundAndKeepsItsDescriptors) {
  for (const MessageCase& c : cases()) {
    const std::vector<std::byte> body = random_bytes(c.body_bytes);
    const auto packet = encode_control(c.kind, std::span<const std::byte>(body));
    auto decoded = decode_control(packet, make_fds(c.fds));
    ASSERT_TRUE(decoded.ok()) << decoded.error();
    EXPECT_EQ(decoded.value().kind(), c.kind);
    EXPECT_EQ(decoded.value().fds().size(), c.fds);
    for (const UniqueFd& fd : decoded.value().fds()) EXPECT_TRUE(is_open(fd.get()));
  }
}

TEST(Control, BodyComesBackAsItWas) {
  HelloBody hello;
  hello.secret.fill(9);
  hello.world_rank = 5;
  hello.probe_value = 0x1122334455667788;
  hello.affinity[15] = 1;
  auto decoded = decode_control(encode_control(ControlKind::hello, hello), {});
  ASSERT_TRUE(decoded.ok());
  const auto back = decoded.value().body<HelloBody>();
  EXPECT_EQ(back.secret, hello.secret);
  EXPECT_EQ(back.world_rank, 5U);
  EXPECT_EQ(back.probe_value, hello.probe_value);
  EXPECT_EQ(back.affinity, hello.affinity);
}

TEST(Control, EveryOtherLengthIsRefused) {
  for (const MessageCase& c : cases()) {
    const std::vector<std::byte> body = random_bytes(c.body_bytes);
    auto packet = encode_control(c.kind, std::span<const std::byte>(body));
    for (std::size_t length = 0; length < packet.size(); ++length) {
      // A copy of exactly this length, so that a sanitizer finds reads past its end.
      const std::vector<std::byte> cut(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_FALSE(decode_control(cut, make_fds(c.fds)).ok()) << length;
    }
    packet.push_back(std::byte{0});
    EXPECT_FALSE(decode_control(packet, make_fds(c.fds)).ok());
  }
}

TEST(Control, EveryOtherNumberOfDescriptorsIsRefusedAndTheyAreClosed) {
  for (const MessageCase& c : cases()) {
    const std::vector<std::byte> body = random_bytes(c.body_bytes);
    const auto packet = encode_control(c.kind, std::span<const std::byte>(body));
    for (std::size_t count = 0; count <= kMaxControlFds + 1; ++count) {
      if (count == c.fds) continue;
      std::vector<UniqueFd> fds = make_fds(count);
      std::vector<int> numbers;
      for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
      EXPECT_FALSE(decode_control(packet, std::move(fds)).ok());
      for (const int number : numbers) EXPECT_FALSE(is_open(number));
    }
  }
}

TEST(Control, HeaderFieldsAreChecked) {
  const auto good = encode_control(ControlKind::goodbye, RankBody{1, 0});
  ASSERT_TRUE(decode_control(good, {}).ok());
  const auto with = [&](auto change) {
    ControlHeader header;
    std::memcpy(&header, good.data(), sizeof(header));
    change(header);
    auto packet = good;
    std::memcpy(packet.data(), &header, sizeof(header));
    return decode_control(packet, {});
  };
  EXPECT_EQ(with([](ControlHeader& h) { ++h.magic; }).error(), "not an Outrigger control message");
  EXPECT_NE(with([](ControlHeader& h) { ++h.version; }).error().find("version"), std::string::npos);
  EXPECT_NE(with([](ControlHeader& h) { h.kind = 0; }).error().find("unknown kind"), std::string::npos);
  EXPECT_NE(with([](ControlHeader& h) { h.kind = 1000; }).error().find("unknown kind"), std::string::npos);
  EXPECT_NE(with([](ControlHeader& h) { h.kind = ~0U; }).error().find("unknown kind"), std::string::npos);
  EXPECT_NE(with([](ControlHeader& h) { h.body_bytes = ~0U; }).error().find("wrong size"), std::string::npos);
}

TEST(ControlDeathTest, AskingForAnotherKindsBodyAborts) {
  auto decoded = decode_control(encode_control(ControlKind::goodbye, RankBody{1, 0}), {});
  EXPECT_DEATH(static_cast<void>(decoded.value().body<HelloBody>()), "");
}

class ControlSockets : public ::testing::Test {
 protected:
  ControlSockets() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    left_ = ControlSocket(UniqueFd(fds[0]));
    right_ = ControlSocket(UniqueFd(fds[1]));
  }
  ControlSocket left_;
  ControlSocket right_;
};

TEST_F(ControlSockets, MessageAndDescriptorsArrive) {
  const auto fds = make_fds(1);
  const std::array<int, 1> numbers{fds[0].get()};
  ASSERT_TRUE(left_.send(ControlKind::region_add, RegionBody{1, 2, 4096, 8192}, numbers));
  auto received = right_.receive(1000);
  ASSERT_EQ(received.event, ControlSocket::Event::message);
  EXPECT_EQ(received.message->body<RegionBody>().bytes, 8192U);
  ASSERT_EQ(received.message->fds().size(), 1U);
  EXPECT_NE(::fcntl(received.message->fds()[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(right_.receive(0).event, ControlSocket::Event::nothing);
  left_.close();
  EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::closed);
  EXPECT_FALSE(right_.send(ControlKind::goodbye, RankBody{}));  // and no SIGPIPE
}

TEST_F(ControlSockets, HostilePacketsAreMalformedAndLeakNothing) {
  const int lowest_free = make_fds(1)[0].get();
  const std::vector<std::byte> junk = random_bytes(64);
  ASSERT_TRUE(left_.send_packet(junk, {}));
  EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::malformed);
  const std::vector<std::byte> too_long = random_bytes(5000);
  ASSERT_TRUE(left_.send_packet(too_long, {}));
  EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::malformed);
  {
    const auto fds = make_fds(3);
    const std::array<int, 3> numbers{fds[0].get(), fds[1].get(), fds[2].get()};
    ASSERT_TRUE(left_.send(ControlKind::goodbye, RankBody{}, numbers));
    EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::malformed);
  }
  {
    // More descriptors than there is room for.
    const auto fds = make_fds(10);
    std::array<int, 10> numbers{};
    for (std::size_t i = 0; i < 10; ++i) numbers[i] = fds[i].get();
    const auto packet = encode_control(ControlKind::goodbye, RankBody{});
    iovec data{const_cast<std::byte*>(packet.data()), packet.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(numbers))> rights{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = rights.data();
    message.msg_controllen = rights.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(numbers));
    std::memcpy(CMSG_DATA(part), numbers.data(), sizeof(numbers));
    ASSERT_GT(::sendmsg(left_.fd(), &message, 0), 0);
    EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::malformed);
  }
  EXPECT_EQ(make_fds(1)[0].get(), lowest_free);
  // The socket still works for valid messages.
  ASSERT_TRUE(left_.send(ControlKind::goodbye, RankBody{}));
  EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::message);
}

TEST_F(ControlSockets, NoRoomForDescriptorsIsSaidAndNobodysFault) {
  std::vector<UniqueFd> fds = make_fds(2);
  const std::array<int, 2> numbers{fds[0].get(), fds[1].get()};
  ASSERT_TRUE(left_.send(ControlKind::welcome, WelcomeBody{}, numbers));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = make_fds(1)[0].get();
  for (const int room : {0, 1}) {  // room for one of the two is not enough
    const rlimit few{static_cast<rlim_t>(lowest_free + room), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto received = right_.receive(1000);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(received.event, ControlSocket::Event::no_descriptors);
    EXPECT_EQ(received.problem,
              "no file descriptors left (limit " + std::to_string(few.rlim_cur) + "); raise ulimit -n");
    ASSERT_TRUE(left_.send(ControlKind::welcome, WelcomeBody{}, numbers));
  }
  EXPECT_EQ(make_fds(1)[0].get(), lowest_free);
  EXPECT_EQ(right_.receive(1000).event, ControlSocket::Event::message);
}

TEST_F(ControlSockets, FullSocketGivesUpAfterTheTime) {
  const auto packet = encode_control(ControlKind::goodbye, RankBody{});
  int sent = 0;
  while (left_.send_packet(packet, {}, 0)) ASSERT_LT(++sent, 1000000);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(left_.send_packet(packet, {}, 100));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(95));
  EXPECT_EQ(right_.receive(0).event, ControlSocket::Event::message);
  EXPECT_TRUE(left_.send_packet(packet, {}, 1000));
}

TEST_F(ControlSockets, ReceiveWaitsAsLongAsItSays) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(right_.receive(50).event, ControlSocket::Event::nothing);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(49));
}

TEST(ControlSocket, ClosedSocketSaysSo) {
  ControlSocket none;
  EXPECT_FALSE(none.open());
  EXPECT_EQ(none.receive(0).event, ControlSocket::Event::closed);
  EXPECT_FALSE(none.send(ControlKind::goodbye, RankBody{}));
}

}  // namespace
}  // namespace outrigger
