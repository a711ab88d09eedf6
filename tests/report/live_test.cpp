// A node's live figures, as a reader of MessagePack finds them; also of ledgers that mean harm.
#include "report/live.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ledgers.hpp"
#include "report/message_pack.hpp"

namespace outrigger::report {
namespace {

using Json = nlohmann::json;

Json read(const std::vector<std::byte>& frame) {
  std::array<std::uint32_t, 3> head{};
  EXPECT_GE(frame.size(), sizeof head);
  std::memcpy(head.data(), frame.data(), sizeof head);
  EXPECT_EQ(head[0], kLiveMagic);
  EXPECT_EQ(head[1], kLiveVersion);
  EXPECT_EQ(head[2], frame.size() - sizeof head);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(frame.data());
  return Json::from_msgpack(bytes + sizeof head, bytes + frame.size());
}

constexpr CallKind kCalled{CollectiveCall::alltoallv, CallForm::nonblocking};

TEST(Live, SaysWhatRanksAndServicesDo) {
  Ledger first = make_ledger(0);
  Ledger second = make_ledger(1);
  for (Ledger* ledger : {&first, &second}) {
    LedgerRow& row = add_row(*ledger, kCalled, 70'000);
    row.offloaded = 300;
    row.call_ns = 5;
    row.completion_ns = 7 * kSecond;
    row.hidden_ns = 11;
    row.late_ns = 13;
    row.native[1] = 2;
    row.reached[kOwnBytes] = std::uint64_t{1} << 40U;
    row.members = {0, 1};
  }
  LiveNode node;
  node.job = "run-1";
  node.at_ns = 3 * kSecond;
  second.header().waits.slept_ns = 3 * kSecond;
  second.header().ended_ns = 3 * kSecond;
  node.ranks = {{first.bytes(), 10, false}, {second.bytes(), 11, true}};
  LiveService service;
  service.cpu = -1;
  service.ran_ns = 5'000'000'000;
  service.warning = "a\x01 warn\xC3ng";
  node.services = {service};
  node.wire = {make_wire_route(true, "rc_verbs/mlx5_0:1")};
  const Json json = read(live_frame(node));
  EXPECT_EQ(json["job"], "run-1");
  EXPECT_EQ(json["mpi"], "an MPI");
  EXPECT_EQ(json["calls"], Json::parse(R"([["MPI_Ialltoallv", "nonblocking", "ialltoallv"]])"));
  EXPECT_EQ(json["communicators"], Json::parse(R"([["00000000000000010000000000000002", "world", 2, 0, 1]])"));
  EXPECT_EQ(json["ranks"],
            Json::parse("[[0, 10, 0, false, 2.0, 0.0, 0.0, false], [1, 11, 0, true, 2.0, 0.0, 3.0, true]]"));
  EXPECT_EQ(json["present"], Json::array());
  EXPECT_EQ(json["places"], Json::array());
  const Json& row = json["rows"][1];
  EXPECT_EQ(row[0], 1);
  EXPECT_EQ(row[3], 70'000);
  EXPECT_EQ(row[4], 300);
  EXPECT_EQ(row[8], 7 * kSecond + 5);
  EXPECT_EQ(row[9], 11);
  EXPECT_EQ(row[10], 13);
  EXPECT_EQ(row[13], Json::parse("[[1, 2]]"));
  EXPECT_EQ(row[14][0][1], std::uint64_t{1} << 40U);
  EXPECT_EQ(json["services"][0][2], -1);
  EXPECT_EQ(json["services"][0][4], 5'000'000'000);
  EXPECT_EQ(json["services"][0][8], "a? warn?ng");
  EXPECT_EQ(json["wire"], Json::parse(R"([["rdma", "rc_verbs/mlx5_0:1"]])"));
  EXPECT_EQ(json["reaches"].size(), kByteKinds);
  EXPECT_EQ(json["reasons"].size(), kNativeReasons);
}

LedgerRow& add_site(Ledger& ledger, const CodePlace& site, const CodePlace& caller) {
  LedgerRow& row = add_row(ledger, kCalled, 1);
  row.group = kSites;
  row.site = site;
  row.caller = caller;
  return row;
}

// `row` and `site`: numbers of rows, from 1.
void enter(Ledger& ledger, std::size_t thread, std::uint32_t row, std::uint32_t site) {
  PresentCall& call = ledger.header().present[thread];
  call = {.since_ns = 2 * kSecond, .ordinal = 7, .inside = 1, .row = row, .site = site, .thread = 5};
}

TEST(Live, SaysWhichCallsRanksAreIn) {
  Ledger first = make_ledger(0);
  Ledger second = make_ledger(1);
  for (Ledger* ledger : {&first, &second}) {
    add_row(*ledger, {CollectiveCall::barrier, CallForm::blocking}, 0);  // its first call
    set_text(ledger->header().objects[0], "/bin/solver");
    set_text(ledger->header().objects[1], "/lib/fft.so");
    add_site(*ledger, {0x10, 2}, {0x20, 1});
    enter(*ledger, 0, 1, 2);
  }
  enter(first, 3, 1, 0);
  first.header().present[3].inside = 0;
  second.header().present[0].waits = 1;
  LiveNode node;
  node.at_ns = 5 * kSecond;
  node.ranks = {{first.bytes(), 10, false}, {second.bytes(), 11, false}};
  const Json json = read(live_frame(node));
  EXPECT_EQ(json["rows"], Json::array());
  EXPECT_EQ(json["calls"][0][0], "MPI_Barrier");
  EXPECT_EQ(json["communicators"][0][1], "world");
  EXPECT_EQ(json["places"], Json::parse(R"([["/lib/fft.so", 16, "/bin/solver", 32]])"));
  EXPECT_EQ(json["present"], Json::parse("[[0, 0, 0, 0, true, false, 7, 3.0], [0, 0, 0, -1, false, false, 7, 3.0], "
                                         "[1, 0, 0, 0, true, true, 7, 3.0]]"));
}

TEST(Live, PresentCallsOfNoRowAreLeftOut) {
  Ledger ledger = make_ledger(0);
  add_row(ledger, kCalled, 1);
  enter(ledger, 0, 0, 0);
  enter(ledger, 1, 3, 0);
  enter(ledger, 2, 1, kLedgerRows + 1);
  LedgerRow& phase = add_row(ledger, kCalled, 1);
  phase.group = kPhases;
  phase.kind = 1U << 31U;
  enter(ledger, 4, 2, 0);
  enter(ledger, 3, 1, 0);
  ledger.header().present[3].since_ns = 0;
  LiveNode node;
  node.ranks = {{ledger.bytes(), 10, false}};
  EXPECT_EQ(read(live_frame(node))["present"], Json::parse("[[0, 0, 0, -1, true, false, 7, 0.0]]"));
}

PresentMessage& add_message(Ledger& ledger, std::size_t thread) {
  PresentMessage& message = ledger.header().messages[thread];
  message.since_ns = 2 * kSecond;
  message.calls = 9;
  message.inside = 1;
  message.thread = 5;
  message.requests = 1;
  message.call = static_cast<std::uint32_t>(MessageCall::sendrecv);
  message.to = {1, 3};
  message.from = {kAnySource, kAnyTag};
  message.has_name = 1;
  message.size = 2;
  set_text(message.name, "world");
  return message;
}

TEST(Live, SaysWhichMessagesRanksWaitFor) {
  Ledger ledger = make_ledger(0);
  add_row(ledger, {CollectiveCall::barrier, CallForm::blocking}, 0);
  set_text(ledger.header().objects[0], "/bin/solver");
  add_message(ledger, 0).site = {0x10, 1};
  PresentMessage& second = add_message(ledger, 1);
  second.call = static_cast<std::uint32_t>(MessageCall::waitall);
  second.inside = 0;
  second.requests = 4;
  second.has_name = 0;
  second.thread = 6;
  second.to = second.from = {};
  enter(ledger, 0, 1, 0);
  LiveNode node;
  node.at_ns = 5 * kSecond;
  node.ranks = {{ledger.bytes(), 10, false}};
  Json json = read(live_frame(node));
  EXPECT_EQ(json["messages"], Json::parse(R"([[0, "MPI_Sendrecv", true, true, 9, 3.0, 0, "world", 2, 1, 3, -2, -1, 1],
                            [0, "MPI_Waitall", false, false, 9, 3.0, -1, null, 0, -1, 0, -1, 0, 4]])"));
  EXPECT_EQ(json["places"], Json::parse(R"([["/bin/solver", 16, "", 0]])"));
  EXPECT_EQ(json["shows_messages"], false);
  ledger.header().shows_messages = 1;
  EXPECT_EQ(read(live_frame(node))["shows_messages"], true);
}

TEST(Live, MessagesThatNoneHasMadeAreLeftOut) {
  Ledger ledger = make_ledger(0);
  add_message(ledger, 0).calls = 0;
  add_message(ledger, 1).call = static_cast<std::uint32_t>(kMessageCalls.size());
  LiveNode node;
  node.ranks = {{ledger.bytes(), 10, false}};
  EXPECT_EQ(read(live_frame(node))["messages"], Json::array());
}

TEST(Live, LinksAreTheLargestAndTheSumOfAll) {
  LiveNode node;
  for (std::uint32_t i = 0; i < kMostLiveLinks + 2; ++i) node.links.push_back({i, "n", i, 1000});
  node.links[0].sent_bytes = std::uint64_t{1} << 40U;
  const Json json = read(live_frame(node));
  ASSERT_EQ(json["links"].size(), kMostLiveLinks);
  EXPECT_EQ(json["links"][0], Json::parse(R"([0, "n", 1099511627776, 1000])"));
  EXPECT_EQ(json["links"][1], Json::parse(R"([33, "n", 33, 1000])"));
  EXPECT_EQ(json["links"].back(), Json::parse(R"([3, "n", 3, 1000])"));
  EXPECT_EQ(json["all_links"], Json::parse("[34, 1099511628337, 34000]"));
  EXPECT_EQ(read(live_frame(LiveNode()))["all_links"], Json::parse("[0, 0, 0]"));
}

TEST(Live, WhatIsNoLedgerIsLeftOut) {
  Ledger ledger = make_ledger(0);
  LedgerRow& row = add_row(ledger, kCalled, 1);
  row.kind = 1U << 31U;
  row.hidden_ns = -1;
  std::vector<std::byte> cut(ledger.bytes().begin(), ledger.bytes().end() - 1);
  LiveNode node;
  node.ranks = {{cut, 10, false}, {ledger.bytes(), 11, false}};
  const Json json = read(live_frame(node));
  EXPECT_EQ(json["ranks"].size(), 1U);
  EXPECT_EQ(json["rows"].size(), 0U);
}

TEST(Live, RowsAreLimited) {
  Ledger ledger = make_ledger(0);
  for (std::uint32_t i = 0; i < kLedgerRows; ++i) add_row(ledger, kCalled, 1).group.low = i;
  LiveNode node;
  node.ranks.assign(5, {ledger.bytes(), 1, false});
  const Json json = read(live_frame(node));
  EXPECT_EQ(json["rows"].size(), kMostLiveRows);
  EXPECT_EQ(json["rows_left_out"], 5 * kLedgerRows - kMostLiveRows);
}

TEST(MessagePack, WritesEachLengthAsTheFormatHasIt) {
  MessagePack out;
  out.list(10);
  for (const std::uint64_t value : {std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{256}, std::uint64_t{65536},
                                    std::numeric_limits<std::uint64_t>::max()}) {
    out.number(value);
  }
  out.signed_number(std::numeric_limits<std::int64_t>::min());
  out.text(std::string(31, 'x'));
  out.text(std::string(32, 'x'));
  out.real(-0.5);
  out.list(70'000);
  for (int i = 0; i < 70'000; ++i) out.nil();
  const Json json = Json::from_msgpack(reinterpret_cast<const std::uint8_t*>(out.bytes().data()),
                                       reinterpret_cast<const std::uint8_t*>(out.bytes().data() + out.bytes().size()));
  EXPECT_EQ(json[4], std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(json[3], 65536);
  EXPECT_EQ(json[5], std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(json[7], std::string(32, 'x'));
  EXPECT_EQ(json[8], -0.5);
  EXPECT_EQ(json[9].size(), 70'000U);
}

}  // namespace
}  // namespace outrigger::report
