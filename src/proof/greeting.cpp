#include "proof/greeting.hpp"

#include <algorithm>
#include <cstring>

#include "protocol/segment.hpp"

namespace outrigger::proof {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x4F525747;  // "ORWG"

// As it stands on the wire.
struct PlainGreeting {
  std::uint32_t magic = kGreetingMagic;
  std::uint32_t version = 0;
  std::uint32_t step = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t reserved = 0;
  Nonce mine{};
  Nonce yours{};
  Mac proof{};
};
static_assert(sizeof(PlainGreeting) == kGreetingBytes);

}  // namespace

JobIdentity identity_of(const JobMap& job_map, const Secret& dpu_secret) {
  JobIdentity identity;
  identity.key = hmac(dpu_secret, Statement("outrigger job key").bytes(job_map.secret()));
  Statement job("outrigger job");
  job.number(job_map.nodes.size());
  for (const NodeDescriptor& node : job_map.nodes) job.text(node.name).number(node.addresses.size());
  job.number(job_map.sp_of_rank.size());
  for (const SpId sp : job_map.sp_of_rank) job.number(sp.value());
  identity.digest = hmac(identity.key, job);
  return identity;
}

EncodedGreeting encode_greeting(const GreetingMessage& message) {
  PlainGreeting plain;
  plain.version = message.version;
  plain.step = static_cast<std::uint32_t>(message.step);
  plain.from = message.from.value();
  plain.to = message.to.value();
  plain.mine = message.mine;
  plain.yours = message.yours;
  plain.proof = message.proof;
  EncodedGreeting bytes;
  std::memcpy(bytes.data(), &plain, sizeof(plain));
  return bytes;
}

bool looks_like_greeting(std::span<const std::byte> bytes) {
  std::uint32_t magic = 0;
  if (bytes.size() < sizeof(magic)) return false;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == kGreetingMagic;
}

std::optional<GreetingMessage> decode_greeting(std::span<const std::byte> bytes) {
  PlainGreeting plain;
  if (bytes.size() != sizeof(plain)) return std::nullopt;
  std::memcpy(&plain, bytes.data(), sizeof(plain));
  const bool known =
      plain.step >= static_cast<std::uint32_t>(Step::call) && plain.step <= static_cast<std::uint32_t>(Step::accept);
  if (plain.magic != kGreetingMagic || !known || plain.reserved != 0) return std::nullopt;
  const auto step = static_cast<Step>(plain.step);
  if (step == Step::call && (plain.yours != Nonce{} || plain.proof != Mac{})) return std::nullopt;
  return GreetingMessage{step, plain.version, SpId{plain.from}, SpId{plain.to}, plain.mine, plain.yours, plain.proof};
}

const Nonce& Greeting::own_nonce() {
  if (!mine_) mine_ = fresh_nonce();
  return *mine_;
}

Mac Greeting::proof_of(const GreetingMessage& message) const {
  return hmac(job_->key, Statement("outrigger greeting")
                             .number(static_cast<std::uint64_t>(message.step))
                             .number(message.version)
                             .bytes(job_->digest)
                             .number(message.from.value())
                             .number(message.to.value())
                             .bytes(message.mine)
                             .bytes(message.yours));
}

GreetingMessage Greeting::proven(Step step, const Nonce& theirs) {
  GreetingMessage message{step, kProtocolVersion, self_, peer_, own_nonce(), theirs, {}};
  message.proof = proof_of(message);
  return message;
}

wire::Pass Greeting::pass(SpId from, SpId to, const Nonce& of_sender, const Nonce& of_receiver) const {
  const Mac mac = hmac(job_->key, Statement("outrigger pass")
                                      .number(kProtocolVersion)
                                      .bytes(job_->digest)
                                      .number(from.value())
                                      .number(to.value())
                                      .bytes(of_sender)
                                      .bytes(of_receiver));
  wire::Pass pass{};
  std::copy_n(mac.begin(), pass.size(), pass.begin());
  return pass;
}

void Greeting::know(const Nonce& theirs) {
  theirs_ = theirs;
  pass_in_ = pass(peer_, self_, theirs, own_nonce());
  pass_out_ = pass(self_, peer_, own_nonce(), theirs);
}

// Who is known but has not said that it knows us is asked by an answer: that one is answered by an accept again.
std::optional<GreetingMessage> Greeting::call() {
  if (open_) return std::nullopt;
  if (theirs_) return proven(Step::answer, *theirs_);
  return GreetingMessage{Step::call, kProtocolVersion, self_, peer_, own_nonce(), {}, {}};
}

std::optional<GreetingMessage> Greeting::answer(const Nonce& caller) {
  if (answers_left_ == 0) return std::nullopt;
  --answers_left_;
  return proven(Step::answer, caller);
}

std::optional<GreetingMessage> Greeting::hear(const GreetingMessage& message) {
  if (job_ == nullptr || message.from != peer_ || message.to != self_ || message.version != kProtocolVersion) {
    return std::nullopt;
  }
  if (message.step == Step::call) {
    // Of a known one only what it may have sent before it knew us: whoever takes its place is introduced anew.
    if (theirs_ && message.mine != *theirs_) return std::nullopt;
    return answer(message.mine);
  }
  if (!mine_ || !same(message.yours, *mine_)) return std::nullopt;  // not to us, now
  if (theirs_ && message.mine != *theirs_) return std::nullopt;
  if (!same(message.proof, proof_of(message))) {
    lied_to_ = true;
    return std::nullopt;
  }
  const bool knew = theirs_.has_value();
  if (!knew) know(message.mine);
  if (message.step == Step::accept) open_ = true;
  // It hears once that it is known, and again where it still asks.
  if (!knew) return proven(Step::accept, *theirs_);
  if (message.step == Step::accept || answers_left_ == 0) return std::nullopt;
  --answers_left_;
  return proven(Step::accept, *theirs_);
}

}  // namespace outrigger::proof
