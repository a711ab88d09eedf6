// Handshake of two service processes of different nodes: each proves that it has the job's key, without sending it,
// over a nonce of each side, so that recorded messages are useless later.
//
//   A                                                 B
//   call {a}                             ---->                    "I am A: who are you?"
//                                        <----  answer {b, a, proof of B}
//   (knows B)  accept {a, b, proof of A}   ---->
//                                        <----  accept {b, a, proof of B}    (knows A, and that A knows B)
//   (knows that B knows A)
//
// Either side may call, also both at once. A proof covers its direction, so that it cannot be reflected; both nonces;
// the step; the version; and the job. Each side accepts only proofs over its own nonce for this pair, so messages of
// strangers and of other handshakes have no effect. Other messages are sent only to a peer that has confirmed the
// handshake, so a receiver always knows the sender.
//
// From the nonces both derive a token for each direction, which every further message carries (wire_messages.hpp).
//
// A repeats its call until it is answered. A replacement of a service process has a new Handshake with a new nonce.
// Each message carries the incarnations (epochs) of both sides and is ignored by any other incarnation, so a replaced
// peer is never mistaken for its successor.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proof/hmac.hpp"
#include "protocol/ids.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/wire_messages.hpp"

namespace outrigger::proof {

// Facts that all service processes of a job share.
struct JobIdentity {
  Key key{};
  // of the places of ranks and service processes, without addresses: restarted service processes have new ones
  Mac digest{};
};

// `dpu_secret`: the secret with which the job's DPUs were started; zeros: no DPUs. With it, knowing what crossed a
// network in clear (the job map on its way to a DPU) is not enough to compute the key.
[[nodiscard]] JobIdentity identity_of(const JobMap& job_map, const Secret& dpu_secret);

inline constexpr std::uint32_t kHandshakeMagic = 0x4F525747;  // "ORWG"

enum class Step : std::uint32_t { call = 1, answer = 2, accept = 3 };

struct HandshakeMessage {
  Step step = Step::call;
  std::uint32_t version = 0;
  SpId from;
  SpId to;
  Epoch from_epoch{1};
  Epoch to_epoch{1};  // as the sender knows it
  Nonce mine{};       // the sender's
  Nonce yours{};      // the receiver's; zeros in a call
  Mac proof{};        // zeros in a call
  static constexpr void fields(auto& io, auto& message) {
    io.constant(kHandshakeMagic);
    io.value(message.version);
    io.code(message.step, Step::call, Step::accept);
    io.value(message.from, message.to, message.from_epoch, message.to_epoch, message.mine, message.yours,
             message.proof);
    io.require(message.step != Step::call || (message.yours == Nonce{} && message.proof == Mac{}));
  }
};

// True if the magic matches, even if the rest is malformed.
[[nodiscard]] bool looks_like_handshake(std::span<const std::byte> bytes);
class Handshake {
 public:
  Handshake() = default;
  // `job` must outlive it.
  Handshake(const JobIdentity& job, SpId self, SpId peer, Epoch self_epoch = Epoch{1}, Epoch peer_epoch = Epoch{1})
      : job_(&job), self_(self), peer_(peer), self_epoch_(self_epoch), peer_epoch_(peer_epoch) {}

  // To be sent now, and again every second or so until is_open(). nullopt: it is open.
  [[nodiscard]] std::optional<HandshakeMessage> call();
  // Takes a message that claims to be the peer's. Returns the reply to the peer, if any.
  [[nodiscard]] std::optional<HandshakeMessage> receive(const HandshakeMessage& message);

  // The peer is authenticated: messages with token_in() come from it.
  [[nodiscard]] bool knows_peer() const { return theirs_.has_value(); }
  // The peer has also authenticated this side, and takes messages with token_out().
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] const wire::Token& token_in() const { return token_in_; }
  [[nodiscard]] const wire::Token& token_out() const { return token_out_; }

  // A message had the right nonce and a wrong proof.
  [[nodiscard]] bool has_wrong_proof() const { return wrong_proof_; }
  // To be called every second or so. Limits the answers to calls in between: they go to the real peer, which a stranger
  // could flood with them.
  void allow_answers() { answers_left_ = kAnswersAtOnce; }
  static constexpr int kAnswersAtOnce = 16;

 private:
  [[nodiscard]] const Nonce& own_nonce();
  [[nodiscard]] HandshakeMessage message(Step step, const Nonce& theirs);
  [[nodiscard]] HandshakeMessage proven(Step step, const Nonce& theirs);
  [[nodiscard]] Mac proof_of(const HandshakeMessage& message) const;
  struct End {
    SpId sp;
    Epoch epoch;
    const Nonce& nonce;
  };
  [[nodiscard]] wire::Token token(const End& sender, const End& receiver) const;
  [[nodiscard]] std::optional<HandshakeMessage> answer(const Nonce& caller);
  void know(const Nonce& theirs);

  const JobIdentity* job_ = nullptr;
  SpId self_;
  SpId peer_;
  Epoch self_epoch_{1};
  Epoch peer_epoch_{1};
  std::optional<Nonce> mine_;
  std::optional<Nonce> theirs_;  // after its proof
  bool open_ = false;
  bool wrong_proof_ = false;
  int answers_left_ = kAnswersAtOnce;
  wire::Token token_in_{};
  wire::Token token_out_{};
};

}  // namespace outrigger::proof
