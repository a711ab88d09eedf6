#include "fabric/ucx/remote_reduction.hpp"

#include <cassert>

#include "reduce/reduce.hpp"

namespace outrigger::fabric::ucx {

void RemoteReduction::start(NodeMemory& memory, const Reduction& reduction, std::vector<MemoryRef> operands,
                            std::span<std::byte> room, std::uint64_t bytes, NodeMemory::Accessed done) {
  assert(operands.size() >= 2 && room.size() >= 2 * bytes && "at least two operands, and room for two");
  const std::shared_ptr<RemoteReduction> started(
      new RemoteReduction(memory, reduction, std::move(operands), room, bytes, std::move(done)));
  started->read_some();
}

// The first place is for the result, and so for the first operand.
void RemoteReduction::read_some() {
  read_.clear();
  hold_.clear();
  if (next_ != 0) read_.push_back(room_.data());
  std::size_t place = 1;
  ++under_way_;  // so that the first read to end does not end the whole
  for (; next_ != operands_.size() && status_ == MoveStatus::ok; ++next_) {
    const MemoryRef& operand = operands_[next_];
    NodeMemory::View view = memory_.view(operand, bytes_);
    if (view.status != MoveStatus::ok) {
      status_ = view.status;
    } else if (view.bytes != nullptr) {
      read_.push_back(view.bytes);
      hold_.push_back(std::move(view.hold));
    } else if (next_ == 0) {
      read(operand, room_.first(bytes_));
    } else {
      if ((place + 1) * bytes_ > room_.size()) break;
      read(operand, room_.subspan(place++ * bytes_, bytes_));
    }
  }
  read_ended(status_);
}

void RemoteReduction::read(const MemoryRef& operand, std::span<std::byte> place) {
  read_.push_back(place.data());
  ++under_way_;
  memory_.start_read(operand, place, [self = shared_from_this()](MoveStatus status) { self->read_ended(status); });
}

void RemoteReduction::read_ended(MoveStatus status) {
  if (status_ == MoveStatus::ok) status_ = status;
  if (--under_way_ != 0) return;
  if (status_ == MoveStatus::ok) reduce_read();
  if (status_ == MoveStatus::ok && next_ != operands_.size()) return read_some();
  done_(status_);
}

void RemoteReduction::reduce_read() {
  const reduce::Kernel kernel = reduce::kernel_of(reduction_);
  const std::byte* so_far = read_.front();
  for (std::size_t i = 1; i < read_.size(); ++i) {
    kernel(so_far, read_[i], room_.data(), bytes_ / reduction_.element_bytes());
    so_far = room_.data();
  }
}

}  // namespace outrigger::fabric::ucx
