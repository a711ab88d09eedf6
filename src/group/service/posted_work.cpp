#include "group/service/posted_work.hpp"

#include <algorithm>
#include <utility>

#include "group/service/member_memory.hpp"

namespace outrigger::group {
namespace {

bool is_same_call(const Post& one, const Post& other) {
  return one.call == other.call && one.type == other.type && one.operation == other.operation && one.root == other.root;
}

}  // namespace

PostedWork::PostedWork(ServiceArea area, const MemberProcesses& processes)
    : area_(std::move(area)),
      processes_(processes),
      order_(intranode::SumTree::linear(area_.members())),
      scratch_(std::max(kPieceBytes, piece_bytes(area_.members()) * area_.members())) {}

bool PostedWork::run(std::uint64_t number) {
  whole_ = {.post = number};
  const Post& first = post(0);
  for (std::uint32_t member = 1; member < area_.members(); ++member) {
    if (!is_same_call(first, post(member))) return false;
  }
  if (first.root >= area_.members()) return false;
  return is_reduction(first.call) ? reductions() : copies();
}

bool PostedWork::copies() {
  const PostedCall call = post(0).call;
  const std::uint32_t root = post(0).root;
  if (call == PostedCall::barrier) return true;
  for (std::uint32_t from = 0; from < area_.members(); ++from) {
    const bool is_root_alone = call == PostedCall::broadcast || call == PostedCall::scatter;
    if (is_root_alone && from != root) continue;
    for (std::uint32_t into = 0; into < area_.members(); ++into) {
      if (call == PostedCall::gather && into != root) continue;
      if (call == PostedCall::broadcast && into == root) continue;
      const bool has_row = call == PostedCall::scatter || call == PostedCall::all_to_all;
      const bool gets_row =
          call == PostedCall::gather || call == PostedCall::all_gather || call == PostedCall::all_to_all;
      if (!copy({from, post(from).from[has_row ? into : 0]}, {into, post(into).into[gets_row ? from : 0]}))
        return false;
    }
  }
  return true;
}

bool PostedWork::copy(const End& from, const End& into) {
  if (from.block.bytes != into.block.bytes) return false;
  if (from.member == into.member && from.block.address == into.block.address) return true;
  for (std::uint64_t done = 0; done < from.block.bytes; done += kPieceBytes) {
    const std::span piece = std::span(scratch_).first(std::min(kPieceBytes, from.block.bytes - done));
    const Touching touching(area_.head());
    if (!touching.may() || !read(from, done, piece) || !write(into, done, piece)) return false;
  }
  return true;
}

bool PostedWork::read(const End& from, std::uint64_t done, std::span<std::byte> to) {
  return read_member(processes_, from.member, from.block.address + done, to);
}
bool PostedWork::write(const End& into, std::uint64_t done, std::span<const std::byte> from) {
  return write_member(processes_, into.member, into.block.address + done, from);
}

bool PostedWork::reductions() {
  const Post& first = post(0);
  combine_ = combine_for(first.type, first.operation, order_);
  if (combine_ == nullptr) return false;
  std::vector<End> into;
  for (std::uint32_t member = 0; member < area_.members(); ++member) {
    const End end{member, post(member).into[0]};
    if (first.call == PostedCall::reduce_scatter) {
      if (!reduce(member, std::span(&end, 1))) return false;
    } else if (first.call == PostedCall::all_reduce || member == first.root) {
      into.push_back(end);
    }
  }
  return into.empty() || reduce(0, into);
}

// Block `block` of all contributions.
bool PostedWork::reduce(std::uint32_t block, std::span<const End> into) {
  const std::uint64_t bytes = into.front().block.bytes;
  const auto is_as_long = [&](const End& end) { return end.block.bytes == bytes; };
  if (bytes % combine_->element_bytes() != 0 || !std::ranges::all_of(into, is_as_long)) return false;
  for (std::uint32_t member = 0; member < area_.members(); ++member) {
    if (!is_as_long({member, post(member).from[block]})) return false;
  }
  const std::uint64_t most = piece_bytes(area_.members());
  for (std::uint64_t done = 0; done < bytes; done += most) {
    if (!reduce_piece(block, done, std::min(most, bytes - done), into)) return false;
  }
  return true;
}

bool PostedWork::reduce_piece(std::uint32_t block, std::uint64_t done, std::uint64_t bytes, std::span<const End> into) {
  ServiceHead& head = area_.head();
  const Touching touching(head);
  if (!touching.may()) return false;
  std::vector<const std::byte*> contributions;
  for (std::uint32_t member = 0; member < area_.members(); ++member) {
    const std::span piece = std::span(scratch_).subspan(member * bytes, bytes);
    if (!read({member, post(member).from[block]}, done, piece)) return false;
    contributions.push_back(piece.data());
  }
  const std::span result = std::span(head.results[whole_.pieces % 2]).first(bytes);
  combine_->apply(contributions, result.data(), done / combine_->element_bytes(), bytes / combine_->element_bytes());
  ++whole_.pieces;
  head.pieces.store(whole_.word(), std::memory_order_release);
  return std::ranges::all_of(into, [&](const End& end) { return write(end, done, result); });
}

}  // namespace outrigger::group
