// A stream between two members of a node: a ring in shared memory each way. Both ring the other's doorbell.
#pragma once

#include <cstdint>
#include <utility>

#include "group/group_area.hpp"
#include "group/stream.hpp"

namespace outrigger::group {

class RingStream final : public Stream {
 public:
  // Places in the node.
  RingStream(GroupArea area, std::uint32_t own, std::uint32_t other)
      : area_(std::move(area)), outgoing_(area_.ring(own, other)), incoming_(area_.ring(other, own)), other_(other) {}

  [[nodiscard]] std::size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override;
  [[nodiscard]] std::size_t read(std::span<std::byte> head, std::span<std::byte> body) override;

 private:
  void ring() const;

  GroupArea area_;
  Ring& outgoing_;
  Ring& incoming_;
  std::uint32_t other_;
};

}  // namespace outrigger::group
