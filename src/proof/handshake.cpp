#include "proof/handshake.hpp"

#include <algorithm>

#include "protocol/build_version.hpp"

namespace outrigger::proof {

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

bool looks_like_handshake(std::span<const std::byte> bytes) {
  return take_first<std::uint32_t>(bytes) == kHandshakeMagic;
}

const Nonce& Handshake::own_nonce() {
  if (!mine_) mine_ = fresh_nonce();
  return *mine_;
}

Mac Handshake::proof_of(const HandshakeMessage& message) const {
  return hmac(job_->key, Statement("outrigger handshake")
                             .number(static_cast<std::uint64_t>(message.step))
                             .number(message.version)
                             .bytes(job_->digest)
                             .number(message.from.value())
                             .number(message.to.value())
                             .number(message.from_epoch.value())
                             .number(message.to_epoch.value())
                             .bytes(message.mine)
                             .bytes(message.yours));
}

HandshakeMessage Handshake::message(Step step, const Nonce& theirs) {
  HandshakeMessage message;
  message.step = step;
  message.version = build_version();
  message.from = self_;
  message.to = peer_;
  message.from_epoch = self_epoch_;
  message.to_epoch = peer_epoch_;
  message.mine = own_nonce();
  message.yours = theirs;
  return message;
}

HandshakeMessage Handshake::proven(Step step, const Nonce& theirs) {
  HandshakeMessage said = message(step, theirs);
  said.proof = proof_of(said);
  return said;
}

wire::Token Handshake::token(const End& sender, const End& receiver) const {
  const Mac mac = hmac(job_->key, Statement("outrigger token")
                                      .number(build_version())
                                      .bytes(job_->digest)
                                      .number(sender.sp.value())
                                      .number(receiver.sp.value())
                                      .number(sender.epoch.value())
                                      .number(receiver.epoch.value())
                                      .bytes(sender.nonce)
                                      .bytes(receiver.nonce));
  wire::Token made{};
  std::copy_n(mac.begin(), made.size(), made.begin());
  return made;
}

void Handshake::know(const Nonce& theirs) {
  theirs_ = theirs;
  const End self{self_, self_epoch_, own_nonce()};
  const End peer{peer_, peer_epoch_, theirs};
  token_in_ = token(peer, self);
  token_out_ = token(self, peer);
}

// A known peer that has not confirmed gets an answer: it replies to that with an accept again.
std::optional<HandshakeMessage> Handshake::call() {
  if (open_) return std::nullopt;
  if (theirs_) return proven(Step::answer, *theirs_);
  return message(Step::call, {});
}

std::optional<HandshakeMessage> Handshake::answer(const Nonce& caller) {
  if (answers_left_ == 0) return std::nullopt;
  --answers_left_;
  return proven(Step::answer, caller);
}

std::optional<HandshakeMessage> Handshake::receive(const HandshakeMessage& message) {
  if (job_ == nullptr || message.from != peer_ || message.to != self_ || message.version != build_version()) {
    return std::nullopt;
  }
  if (message.from_epoch != peer_epoch_ || message.to_epoch != self_epoch_) return std::nullopt;
  if (message.step == Step::call) {
    // A known peer may only repeat earlier messages: its replacement makes a new handshake.
    if (theirs_ && message.mine != *theirs_) return std::nullopt;
    return answer(message.mine);
  }
  if (!mine_ || !same(message.yours, *mine_)) return std::nullopt;  // not for this handshake
  if (theirs_ && message.mine != *theirs_) return std::nullopt;
  if (!same(message.proof, proof_of(message))) {
    wrong_proof_ = true;
    return std::nullopt;
  }
  const bool knew = theirs_.has_value();
  if (!knew) know(message.mine);
  if (message.step == Step::accept) open_ = true;
  // The peer is told once that it is known, and again whenever it repeats its question.
  if (!knew) return proven(Step::accept, *theirs_);
  if (message.step == Step::accept || answers_left_ == 0) return std::nullopt;
  --answers_left_;
  return proven(Step::accept, *theirs_);
}

}  // namespace outrigger::proof
