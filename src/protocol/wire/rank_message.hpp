// Messages between a rank and the service processes of its DPU that are not writes to memory: the header of a UCX
// active message.
#pragma once

#include <cstdint>

#include "protocol/wire/message_io.hpp"

namespace outrigger {

inline constexpr unsigned kRankMessageId = 2;

struct RankMessage {
  static constexpr std::uint32_t kHello = 0x4F524831;     // service process -> rank: connected
  static constexpr std::uint32_t kHere = 0x4F524832;      // rank -> service process: the answer
  static constexpr std::uint32_t kDoorbell = 0x4F524833;  // rank -> service process: there is a new post
  std::uint32_t what = 0;
  std::uint32_t process = 0;     // of a hello: number of the service process, SegmentHeader::dpu_process
  std::uint32_t world_rank = 0;  // of a hello and its answer
};

}  // namespace outrigger
