// Does one post of all members: reads and writes their memory (process_vm_readv and process_vm_writev), and combines
// contributions in the order of ranks, as members do by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "group/combines.hpp"
#include "group/member_processes.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

class PostedWork {
 public:
  // `processes` of the members; outlives it.
  PostedWork(ServiceArea area, const MemberProcesses& processes);
  // False: the members must do it by themselves. Their calls do not fit together, or memory cannot be reached, or the
  // group has failed. `number`: of the post.
  [[nodiscard]] bool run(std::uint64_t number);

 private:
  struct End {
    std::uint32_t member = 0;
    PostedBlock block{};
  };

  [[nodiscard]] const Post& post(std::uint32_t member) const { return area_.seat(member).post; }
  [[nodiscard]] bool copies();
  [[nodiscard]] bool copy(const End& from, const End& into);
  [[nodiscard]] bool read(const End& from, std::uint64_t done, std::span<std::byte> to);
  [[nodiscard]] bool write(const End& into, std::uint64_t done, std::span<const std::byte> from);
  [[nodiscard]] bool reductions();
  [[nodiscard]] bool reduce(std::uint32_t block, std::span<const End> into);
  [[nodiscard]] bool reduce_piece(std::uint32_t block, std::uint64_t done, std::uint64_t bytes,
                                  std::span<const End> into);

  ServiceArea area_;
  const MemberProcesses& processes_;
  intranode::SumOrder order_;
  std::unique_ptr<intranode::Combine> combine_;
  std::vector<std::byte> scratch_;
  PieceCount whole_;
};

}  // namespace outrigger::group
