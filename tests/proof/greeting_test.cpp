// Two service processes that greet each other, without a network: what is taken, and all that is not.
#include "proof/greeting.hpp"

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

// What is under way between two, who take it in turns.
struct Pair {
  explicit Pair(const JobIdentity& of_a = identity_of(job_map_of(1), {}),
                const JobIdentity& of_b = identity_of(job_map_of(1), {}))
      : job_a(of_a), job_b(of_b) {}
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() = default;

  void a_calls() { to_b.push_back(a.call().value()); }
  void b_calls() { to_a.push_back(b.call().value()); }
  // Until nobody has anything to say. All that is said is written down.
  void run() {
    for (int turn = 0; turn < 100 && (!to_a.empty() || !to_b.empty()); ++turn) {
      step(to_b, b, to_a);
      step(to_a, a, to_b);
    }
    EXPECT_TRUE(to_a.empty() && to_b.empty()) << "they do not come to an end";
  }
  void step(std::deque<GreetingMessage>& at, Greeting& who, std::deque<GreetingMessage>& back) {
    if (at.empty()) return;
    const GreetingMessage message = at.front();
    at.pop_front();
    recorded.push_back(message);
    if (const auto reply = who.hear(message)) back.push_back(*reply);
  }
  [[nodiscard]] bool open() const { return a.is_open() && b.is_open(); }
  [[nodiscard]] bool strange() const { return !a.knows_peer() && !b.knows_peer() && !a.is_open() && !b.is_open(); }

  JobIdentity job_a;
  JobIdentity job_b;
  Greeting a{job_a, kA, kB};
  Greeting b{job_b, kB, kA};
  std::deque<GreetingMessage> to_a;
  std::deque<GreetingMessage> to_b;
  std::vector<GreetingMessage> recorded;
};

TEST(Greeting, MakesTwoKnownToEachOther) {
  Pair pair;
  pair.a_calls();
  EXPECT_TRUE(pair.strange());
  pair.run();
  ASSERT_TRUE(pair.open());
  EXPECT_EQ(pair.recorded.size(), 4U);
  EXPECT_EQ(pair.a.pass_out(), pair.b.pass_in());
  EXPECT_EQ(pair.b.pass_out(), pair.a.pass_in());
  EXPECT_NE(pair.a.pass_out(), pair.a.pass_in());
  EXPECT_NE(pair.a.pass_out(), wire::Pass{});
  EXPECT_FALSE(pair.a.call()) << "there is nothing left to ask";
}

TEST(Greeting, NobodyIsOpenBeforeTheOtherKnowsIt) {
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

// Messages that are sent twice, late, in any order, or not at all: in the end they know each other, and stop talking.
TEST(Greeting, GetsThereInAnyOrder) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    Pair pair;
    std::vector<std::pair<bool, GreetingMessage>> under_way;  // to b?
    const auto say = [&](bool to_b, const std::optional<GreetingMessage>& message) {
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
      say(!to_b, to_b ? pair.b.hear(message) : pair.a.hear(message));
    }
    EXPECT_TRUE(pair.open()) << seed;
    EXPECT_EQ(pair.a.pass_out(), pair.b.pass_in()) << seed;
    EXPECT_EQ(pair.b.pass_out(), pair.a.pass_in()) << seed;
    EXPECT_FALSE(pair.a.was_lied_to() || pair.b.was_lied_to()) << seed;
  }
}

TEST(Greeting, TakesNobodyOfAnotherJob) {
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
    EXPECT_TRUE(pair.a.was_lied_to() && pair.b.was_lied_to());
  }
}

TEST(Greeting, OfOneIsRightWhoeverHasAnotherAddressNow) {
  JobMap moved = job_map_of(1);
  moved.nodes[1].addresses[0] = {std::byte{1}, std::byte{2}};
  Pair pair(identity_of(job_map_of(1), {}), identity_of(moved, {}));
  pair.a_calls();
  pair.run();
  EXPECT_TRUE(pair.open());
}

TEST(Greeting, TakesNobodyForAnother) {
  const JobIdentity job = identity_of(job_map_of(1), {});
  Pair pair;
  Greeting third(job, SpId{5}, kB);  // of the job, and speaks to b as itself
  Greeting liar(job, kA, SpId{6});   // speaks to another
  for (Greeting* other : {&third, &liar}) {
    GreetingMessage call = other->call().value();
    EXPECT_FALSE(pair.b.hear(call));
    call.from = kA;
    call.to = kB;
    const auto answer = pair.b.hear(call);  // to the real a
    ASSERT_TRUE(answer);
    EXPECT_FALSE(other->hear(*answer));
    EXPECT_FALSE(pair.a.hear(*answer));
  }
  EXPECT_TRUE(pair.strange());
}

TEST(Greeting, RecordedIsWorthNothingLater) {
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
    const wire::Pass pass = amid ? pair.b.pass_in() : wire::Pass{};
    for (int round = 0; round < 3; ++round) {
      for (const GreetingMessage& old : before.recorded) {
        (void)pair.a.hear(old);
        (void)pair.b.hear(old);
      }
    }
    EXPECT_EQ(pair.open(), amid);
    EXPECT_EQ(pair.strange(), !amid);
    EXPECT_EQ(pair.b.pass_in(), pass);
    EXPECT_NE(pair.b.pass_in(), before.b.pass_in());
  }
}

TEST(Greeting, OfItselfRecordedChangesNothing) {
  Pair pair;
  pair.a_calls();
  pair.run();
  const wire::Pass pass = pair.b.pass_in();
  const auto recorded = pair.recorded;
  for (const GreetingMessage& again : recorded) {
    (void)pair.a.hear(again);
    (void)pair.b.hear(again);
  }
  EXPECT_TRUE(pair.open());
  EXPECT_EQ(pair.b.pass_in(), pass);
}

TEST(Greeting, SentBackIsRefused) {
  Pair pair;
  std::vector<GreetingMessage> said{pair.b.call().value()};
  for (int round = 0; round < 4; ++round) {
    const auto so_far = said;
    for (const GreetingMessage& message : so_far) {
      for (int way = 0; way < 4; ++way) {
        GreetingMessage back = message;
        if (way % 2 == 1) std::swap(back.from, back.to);
        if (way / 2 == 1) std::swap(back.mine, back.yours);
        if (const auto reply = pair.b.hear(back)) said.push_back(*reply);
      }
    }
  }
  EXPECT_FALSE(pair.b.knows_peer());
}

TEST(Greeting, ProvesEveryField) {
  Pair pair;
  pair.a_calls();
  pair.step(pair.to_b, pair.b, pair.to_a);
  const GreetingMessage answer = pair.to_a.front();
  const std::vector<std::function<void(GreetingMessage&)>> changes{
      [](GreetingMessage& m) { m.step = Step::accept; },
      [](GreetingMessage& m) { ++m.version; },
      [](GreetingMessage& m) { m.from = SpId{8}; },
      [](GreetingMessage& m) { m.to = SpId{8}; },
      [](GreetingMessage& m) { m.mine[31] ^= 1; },
      [](GreetingMessage& m) { m.yours[0] ^= 1; },
      [](GreetingMessage& m) { m.proof[31] ^= 1; },
      [](GreetingMessage& m) { m.proof = {}; },
      [&pair](GreetingMessage& m) { m.proof = hmac(pair.job_a.key, Statement("something else")); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    GreetingMessage changed = answer;
    changes[i](changed);
    EXPECT_FALSE(pair.a.hear(changed)) << i;
    EXPECT_TRUE(pair.strange()) << i;
  }
  pair.run();
  EXPECT_TRUE(pair.open()) << "and then the right one";
}

TEST(Greeting, OfAnotherVersionIsNotAnswered) {
  Pair pair;
  GreetingMessage call = pair.a.call().value();
  ++call.version;
  EXPECT_FALSE(pair.b.hear(call));
  EXPECT_TRUE(pair.strange());
}

TEST(Greeting, OfWhoTakesThePlaceOfAnotherIsNew) {
  Pair pair;
  pair.a_calls();
  pair.run();
  const wire::Pass old = pair.a.pass_in();
  pair.b = Greeting(pair.job_b, kB, kA);  // started again
  EXPECT_FALSE(pair.a.hear(pair.b.call().value())) << "before a is told of it, it is anybody";
  pair.a = Greeting(pair.job_a, kA, kB);
  pair.b_calls();
  pair.run();
  EXPECT_TRUE(pair.open());
  EXPECT_NE(pair.a.pass_in(), old);
}

TEST(Greeting, AnswersSoOftenAndNotMoreOften) {
  Pair pair;
  GreetingMessage call = pair.a.call().value();
  int answers = 0;
  for (int i = 0; i < 100; ++i) {
    call.mine = fresh_nonce();
    answers += pair.b.hear(call) ? 1 : 0;
  }
  EXPECT_EQ(answers, Greeting::kAnswersAtOnce);
  EXPECT_FALSE(pair.b.hear(pair.a.call().value()));
  pair.b.allow_answers();
  pair.a_calls();
  pair.run();
  EXPECT_TRUE(pair.open());
}

TEST(GreetingMessage, ComesBackAsItWasAndInNoOtherLength) {
  Pair pair;
  pair.a_calls();
  pair.run();
  for (const GreetingMessage& message : pair.recorded) {
    const EncodedGreeting bytes = encode_greeting(message);
    EXPECT_TRUE(looks_like_greeting(bytes));
    const auto back = decode_greeting(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(encode_greeting(*back), bytes);
    std::vector<std::byte> longer(bytes.begin(), bytes.end());
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_greeting(longer));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode_greeting(std::span(bytes).first(length))) << length;
    }
  }
  EncodedGreeting bytes = encode_greeting(GreetingMessage{});
  ASSERT_TRUE(decode_greeting(bytes));
  for (const std::size_t at : {0U, 8U, 11U, 28U, 70U, 110U}) {  // magic, step, reserved; a call with an answer's fields
    EncodedGreeting spoiled = bytes;
    spoiled[at] ^= std::byte{8};
    EXPECT_FALSE(decode_greeting(spoiled)) << at;
  }
}

}  // namespace
}  // namespace outrigger::proof
