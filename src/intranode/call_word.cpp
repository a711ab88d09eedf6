#include "intranode/call_word.hpp"

namespace outrigger::intranode {
namespace {

bool has_root(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::bcast:
    case CollectiveCall::reduce:
    case CollectiveCall::gather:
    case CollectiveCall::gatherv:
    case CollectiveCall::scatter:
    case CollectiveCall::scatterv: return true;
    default: return false;
  }
}

bool has_alike_bytes(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
    case CollectiveCall::gatherv:
    case CollectiveCall::scatterv:
    case CollectiveCall::allgatherv:
    case CollectiveCall::alltoallv:
    case CollectiveCall::alltoallw:
    case CollectiveCall::neighbor_allgather:
    case CollectiveCall::neighbor_allgatherv:
    case CollectiveCall::neighbor_alltoall:
    case CollectiveCall::neighbor_alltoallv:
    case CollectiveCall::neighbor_alltoallw: return false;
    default: return true;
  }
}

std::string rank_text(std::uint32_t rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

std::string CallWord::description() const {
  if (!is_compared()) return "another call";
  const auto call = static_cast<CollectiveCall>(number_of_call());
  std::string text = name_of(CallKind{call, CallForm::blocking});
  if (has_alike_bytes(call)) {
    const std::uint64_t bytes = word_ & kBytesMask;
    text += bytes < kMostExactBytes ? " of " + std::to_string(bytes) + " bytes" : " of 512 KiB or more";
  }
  if (has_root(call)) text += " with root " + std::to_string(word_ >> kBytesBits & kRootMask);
  return text;
}

std::string Difference::description(std::uint32_t me) const {
  if (lengths && other == me) {
    return rank_text(me) + " sends itself " + std::to_string(given) + " bytes in " + mine.description() +
           ", and expects " + std::to_string(room);
  }
  if (lengths) {
    return rank_text(other) + " and " + rank_text(me) + " disagree in " + mine.description() +
           ": one sends the other " + std::to_string(given) + " bytes, which expects " + std::to_string(room);
  }
  return rank_text(me) + " calls " + mine.description() + ", and " + rank_text(other) + " calls " +
         theirs.description();
}

}  // namespace outrigger::intranode
