// The handshake of two service processes without a network: which messages are accepted and which are not.
#include "proof/handshake.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <random>
#include <vector>

namespace outrigger::proof {
namespace {

constexpr SpId kA{3};
constexpr SpId kB{7};

JobMap job_map_of(std::uint8_t secret, const std::string& name = "n") {
  JobMap job_map;
  for (std::uint32_t node = 0; node < 2; ++node) {
    NodeDescriptor descriptor;
    descriptor.name = name + std::to_string(node);
    descriptor.secret.fill(static_cast<std::uint8_t>(secret + node));
    descriptor.addresses.resize(4, {std::byte{9}});
    job_map.nodes.push_back(descriptor);
    job_map.first_sp.push_back(4 * node);
  }
  job_map.sp_count = 8;
  job_map.sp_of_rank = {kA, kB};
  return job_map;
}

// Messages on their way between two ends, which take turns.
struct Pair {
  explicit Pair(const JobIdentity& of_a = identity_of(job_map_of(1), {}),
                const JobIdentity& of_b = identity_of(job_map_of(1), {}))
      : job_a(of_a), job_b(of_b) {}
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() = default;

  void a_calls() { to_b.push_back(a.call().value()); }
  void b_calls() { to_a.push_back(b.call().value()); }
  // Until neither end has a message. Records all messages.
  void run() {
    for (int turn = 0; turn < 100 && (!to_a.empty() || !to_b.empty()); ++turn) {
      step(to_b, b, to_a);
      step(to_a, a, to_b);
    }
    EXPECT_TRUE(to_a.empty() && to_b.empty()) << "they do not come to an end";
  }
  void step(std::deque<HandshakeMessage>& at, Handshake& who, std::deque<HandshakeMessage>& back) {
    if (at.empty()) return;
    const HandshakeMessage message = at.front();
    at.pop_front();
    recorded.push_back(message);
    if (const auto reply = who.receive(message)) back.push_back(*reply);
  }
  [[nodiscard]] bool open() const { return a.is_open() && b.is_open(); }
  [[nodiscard]] bool strange() const { return !a.knows_peer() && !b.knows_peer() && !a.is_open() && !b.is_open(); }

  JobIdentity job_a;
  JobIdentity job_b;
  Handshake a{job_a, kA, kB};
  Handshake b{job_b, kB, kA};
  std::deque<HandshakeMessage> to_a;
  std::deque<HandshakeMessage> to_b;
  std::vector<HandshakeMessage> recorded;
};

TEST(Handshake, MakesTwoKnownToEachOther) {
  Pair pair;
  pair.a_calls();
  EXPECT_TRUE(pair.strange());
  pair.run();
  ASSERT_TRUE(pair.open());
  EXPECT_EQ(pair.recorded.size(), 4U);
  EXPECT_EQ(pair.a.token_out(), pair.b.token_in());
  EXPECT_EQ(pair.b.token_out(), pair.a.token_in());
  EXPECT_NE(pair.a.token_out(), pair.a.token_in());
  EXPECT_NE(pair.a.token_out(), wire::Token{});
  EXPECT_FALSE(pair.a.call()) << "there is nothing left to ask";
}

TEST(Handshake, NobodyIsOpenBeforeTheOtherKnowsIt) {
  Pair pair;
  pair.a_calls();
  for (int turn = 0; turn < 10; ++turn) {
    pair.step(pair.to_b, pair.b, pair.to_a);
    EXPECT_TRUE(!pair.a.is_open() || pair.b.knows_peer());
    EXPECT_TRUE(!pair.b.is_open() || pair.a.knows_peer());
    pair.step(pair.to_a, pair.a, pair.to_b);
    EXPECT_TRUE(!pair.a.is_open() || pair.b.knows_peer());
    EXPECT_TRUE(!pair.b.is_open() || pair.a.knows_peer());
  }
  EXPECT_TRUE(pair.open());
}

// Messages sent twice, late, in any order, or not at all: in the end both know each other and send nothing more.
TEST(Handshake, GetsThereInAnyOrder) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    Pair pair;
    std::vector<std::pair<bool, HandshakeMessage>> under_way;  // to b?
    const auto say = [&](bool to_b, const std::optional<HandshakeMessage>& message) {
      for (auto copies = random() % 4 == 0 ? random() % 3 : 1; message && copies > 0; --copies) {
        under_way.emplace_back(to_b, *message);
      }
    };
    for (int round = 0; round < 60 && !(pair.open() && under_way.empty()); ++round) {
      if (under_way.empty() || random() % 5 == 0) {
        if (random() % 2 == 0) say(true, pair.a.call());
        if (random() % 2 == 0) say(false, pair.b.call());
        pair.a.allow_answers();
        pair.b.allow_answers();
      }
      if (under_way.empty()) continue;
      const auto taken = under_way.begin() + static_cast<std::ptrdiff_t>(random() % under_way.size());
      const auto [to_b, message] = *taken;
      under_way.erase(taken);
      say(!to_b, to_b ? pair.b.receive(message) : pair.a.receive(message));
    }
    EXPECT_TRUE(pair.open()) << seed;
    EXPECT_EQ(pair.a.token_out(), pair.b.token_in()) << seed;
    EXPECT_EQ(pair.b.token_out(), pair.a.token_in()) << seed;
    EXPECT_FALSE(pair.a.has_wrong_proof() || pair.b.has_wrong_proof()) << seed;
  }
}

TEST(Handshake, TakesNobodyOfAnotherJob) {
  const JobIdentity right = identity_of(job_map_of(1), {});
  JobMap served_otherwise = job_map_of(1);
  std::swap(served_otherwise.sp_of_rank[0], served_otherwise.sp_of_rank[1]);
  for (const JobIdentity& other : {identity_of(job_map_of(2), {}), identity_of(job_map_of(1, "m"), {}),
                                   identity_of(job_map_of(1), Secret{1}), identity_of(served_otherwise, {})}) {
    Pair pair(right, other);
    pair.a_calls();
    pair.b_calls();
    pair.run();
    EXPECT_TRUE(pair.strange());
    EXPECT_TRUE(pair.a.has_wrong_proof() && pair.b.has_wrong_proof());
  }
}

TEST(Handshake, OfOneIsRightWhoeverHasAnotherAddressNow) {
  JobMap moved = job_map_of(1);
  moved.nodes[1].addresses[0] = {std::byte{1}, std::byte{2}};
  Pair pair(identity_of(job_map_of(1), {}), identity_of(moved, {}));
  pair.a_calls();
  pair.run();
  EXPECT_TRUE(pair.open());
}

TEST(Handshake, TakesNobodyForAnother) {
  const JobIdentity job = identity_of(job_map_of(1), {});
  Pair pair;
  Handshake third(job, SpId{5}, kB);  // of the job, and speaks to b as itself
  Handshake liar(job, kA, SpId{6});   // speaks to another
  for (Handshake* other : {&third, &liar}) {
    HandshakeMessage call = other->call().value();
    EXPECT_FALSE(pair.b.receive(call));
    call.from = kA;
    call.to = kB;
    const auto answer = pair.b.receive(call);  // to the real a
    ASSERT_TRUE(answer);
    EXPECT_FALSE(other->receive(*answer));
    EXPECT_FALSE(pair.a.receive(*answer));
  }
  EXPECT_TRUE(pair.strange());
}

TEST(Handshake, RecordedIsWorthNothingLater) {
  Pair before;
  before.a_calls();
  before.run();
  ASSERT_TRUE(before.open());
  for (const bool amid : {false, true}) {
    Pair pair;
    if (amid) {
      pair.a_calls();
      pair.run();
    }
    const wire::Token token = amid ? pair.b.token_in() : wire::Token{};
    for (int round = 0; round < 3; ++round) {
      for (const HandshakeMessage& old : before.recorded) {
        (void)pair.a.receive(old);
        (void)pair.b.receive(old);
      }
    }
    EXPECT_EQ(pair.open(), amid);
    EXPECT_EQ(pair.strange(), !amid);
    EXPECT_EQ(pair.b.token_in(), token);
    EXPECT_NE(pair.b.token_in(), before.b.token_in());
  }
}

TEST(Handshake, OfItselfRecordedChangesNothing) {
  Pair pair;
  pair.a_calls();
  pair.run();
  const wire::Token token = pair.b.token_in();
  const auto recorded = pair.recorded;
  for (const HandshakeMessage& again : recorded) {
    (void)pair.a.receive(again);
    (void)pair.b.receive(again);
  }
  EXPECT_TRUE(pair.open());
  EXPECT_EQ(pair.b.token_in(), token);
}

TEST(Handshake, SentBackIsRefused) {
  Pair pair;
  std::vector<HandshakeMessage> said{pair.b.call().value()};
  for (int round = 0; round < 4; ++round) {
    const auto so_far = said;
    for (const HandshakeMessage& message : so_far) {
      for (int way = 0; way < 4; ++way) {
        HandshakeMessage back = message;
        if (way % 2 == 1) std::swap(back.from, back.to);
        if (way / 2 == 1) std::swap(back.mine, back.yours);
        if (const auto reply = pair.b.receive(back)) said.push_back(*reply);
      }
    }
  }
  EXPECT_FALSE(pair.b.knows_peer());
}

TEST(Handshake, ProvesEveryField) {
  Pair pair;
  pair.a_calls();
  pair.step(pair.to_b, pair.b, pair.to_a);
  const HandshakeMessage answer = pair.to_a.front();
  const std::vector<std::function<void(HandshakeMessage&)>> changes{
      [](HandshakeMessage& m) { m.step = Step::accept; },
      [](HandshakeMessage& m) { ++m.version; },
      [](HandshakeMessage& m) { m.from = SpId{8}; },
      [](HandshakeMessage& m) { m.to = SpId{8}; },
      [](HandshakeMessage& m) { m.mine[31] ^= 1; },
      [](HandshakeMessage& m) { m.yours[0] ^= 1; },
      [](HandshakeMessage& m) { m.proof[31] ^= 1; },
      [](HandshakeMessage& m) { m.proof = {}; },
      [&pair](HandshakeMessage& m) { m.proof = hmac(pair.job_a.key, Statement("something else")); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    HandshakeMessage changed = answer;
    changes[i](changed);
    EXPECT_FALSE(pair.a.receive(changed)) << i;
    EXPECT_TRUE(pair.strange()) << i;
  }
  pair.run();
  EXPECT_TRUE(pair.open()) << "and then the right one";
}

TEST(Handshake, OfAnotherVersionIsNotAnswered) {
  Pair pair;
  HandshakeMessage call = pair.a.call().value();
  ++call.version;
  EXPECT_FALSE(pair.b.receive(call));
  EXPECT_TRUE(pair.strange());
}

TEST(Handshake, OfWhoTakesThePlaceOfAnotherIsNew) {
  Pair pair;
  pair.a_calls();
  pair.run();
  const wire::Token old = pair.a.token_in();
  pair.b = Handshake(pair.job_b, kB, kA);  // started again
  EXPECT_FALSE(pair.a.receive(pair.b.call().value())) << "before a is told of it, it is anybody";
  pair.a = Handshake(pair.job_a, kA, kB);
  pair.b_calls();
  pair.run();
  EXPECT_TRUE(pair.open());
  EXPECT_NE(pair.a.token_in(), old);
}

TEST(Handshake, AnswersSoOftenAndNotMoreOften) {
  Pair pair;
  HandshakeMessage call = pair.a.call().value();
  int answers = 0;
  for (int i = 0; i < 100; ++i) {
    call.mine = fresh_nonce();
    answers += pair.b.receive(call) ? 1 : 0;
  }
  EXPECT_EQ(answers, Handshake::kAnswersAtOnce);
  EXPECT_FALSE(pair.b.receive(pair.a.call().value()));
  pair.b.allow_answers();
  pair.a_calls();
  pair.run();
  EXPECT_TRUE(pair.open());
}

TEST(HandshakeMessage, ComesBackAsItWasAndInNoOtherLength) {
  Pair pair;
  pair.a_calls();
  pair.run();
  for (const HandshakeMessage& message : pair.recorded) {
    const std::vector<std::byte> bytes = encoded(message);
    EXPECT_TRUE(looks_like_handshake(bytes));
    const auto back = decoded<HandshakeMessage>(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(encoded(*back), bytes);
    std::vector<std::byte> longer(bytes.begin(), bytes.end());
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decoded<HandshakeMessage>(longer));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decoded<HandshakeMessage>(std::span(bytes).first(length))) << length;
    }
  }
  std::vector<std::byte> bytes = encoded(HandshakeMessage{});
  ASSERT_TRUE(decoded<HandshakeMessage>(bytes));
  for (const std::size_t at : {0U, 8U, 11U, 70U, 110U}) {  // magic, step; a call with an answer's fields
    std::vector<std::byte> spoiled = bytes;
    spoiled[at] ^= std::byte{8};
    EXPECT_FALSE(decoded<HandshakeMessage>(spoiled)) << at;
  }
}

}  // namespace
}  // namespace outrigger::proof
