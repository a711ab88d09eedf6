#include "fabric/dpu/marks_first.hpp"

#include <utility>

namespace outrigger::fabric::dpu {

void MarksFirst::send(SpId to, std::span<const std::byte> message) {
  if (may_pass()) return messenger_.send(to, message);
  waiting_.push_back(Waiting{marks_.last(), Message{to, {message.begin(), message.end()}}});
}

void MarksFirst::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  if (may_pass()) return ranks_.complete(rank, slot, record);
  waiting_.push_back(Waiting{marks_.last(), Completion{rank, slot, record}});
}

void MarksFirst::let_go() {
  while (!waiting_.empty() && waiting_.front().marks <= marks_.in_place()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    std::visit([this](const auto& what) { tell(what); }, next.what);
  }
}

}  // namespace outrigger::fabric::dpu
