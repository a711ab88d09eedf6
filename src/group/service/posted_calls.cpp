#include "group/service/posted_calls.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

namespace outrigger::group {
namespace {

// FNV-1a, by words.
class Digest {
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3; }
  [[nodiscard]] std::uint64_t value() const { return value_ | 1; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

bool are_as_long(std::span<const PostedBlock> blocks, std::uint64_t bytes) {
  return std::ranges::all_of(blocks, [&](const PostedBlock& one) { return one.bytes == bytes; });
}

// Checks one rank alone.
bool fits(const Post& post, std::uint32_t rank, std::uint32_t size, std::uint64_t element_bytes) {
  const std::span from = std::span(post.from).first(size);
  const std::span into = std::span(post.into).first(size);
  const bool is_root = rank == post.root;
  const bool is_whole =
      !is_reduction(post.call) || (element_bytes > 0 && std::ranges::all_of(from, [&](const PostedBlock& one) {
                                     return one.bytes % element_bytes == 0;
                                   }));
  switch (post.call) {
    case PostedCall::gather: return !is_root || are_as_long(into, from[0].bytes);
    case PostedCall::scatter: return !is_root || are_as_long(from, into[0].bytes);
    case PostedCall::all_gather: return into[rank].bytes == from[0].bytes;
    case PostedCall::reduce: return is_whole;
    case PostedCall::all_reduce: return is_whole && into[0].bytes == from[0].bytes;
    case PostedCall::reduce_scatter: return is_whole && into[0].bytes == from[rank].bytes;
    default: return true;
  }
}

// The lengths that all ranks know.
void add_lengths(Digest& digest, const Post& post, std::uint32_t size) {
  const bool has_list = post.call == PostedCall::all_gather || post.call == PostedCall::reduce_scatter;
  const std::array<PostedBlock, intranode::kMostMembers>& blocks =
      post.call == PostedCall::all_gather || post.call == PostedCall::scatter ? post.into : post.from;
  if (post.call == PostedCall::all_to_all) return;
  for (std::uint32_t block = 0; block < (has_list ? size : 1); ++block) digest.add(blocks[block].bytes);
}

bool has_row(PostedCall call) {
  return call == PostedCall::scatter || call == PostedCall::all_to_all;
}
bool gets_row(PostedCall call) {
  return call == PostedCall::gather || call == PostedCall::all_gather || call == PostedCall::all_to_all;
}
bool is_from_root(PostedCall call) {
  return call == PostedCall::broadcast || call == PostedCall::scatter;
}
bool takes_part(const Post& post, std::uint32_t from, std::uint32_t into) {
  if (post.call == PostedCall::gather && into != post.root) return false;
  return post.call != PostedCall::broadcast || into != from;
}

}  // namespace

std::uint64_t arguments_of(const Post& post, std::uint32_t rank, std::uint32_t size, std::uint64_t element_bytes) {
  if (post.root >= size || !fits(post, rank, size, element_bytes)) return 0;
  Digest digest;
  digest.add(static_cast<std::uint64_t>(post.call));
  digest.add(static_cast<std::uint64_t>(post.type));
  digest.add(static_cast<std::uint64_t>(post.operation));
  digest.add(post.root);
  add_lengths(digest, post, size);
  return digest.value();
}

std::vector<Shipment> shipments(const Post& post, const Layout& layout, std::uint32_t from_node,
                                std::uint32_t into_node) {
  std::vector<Shipment> all;
  if (post.call == PostedCall::barrier) return all;
  for (const std::uint32_t from : layout.members(from_node)) {
    if (is_from_root(post.call) && from != post.root) continue;
    Shipment shared{.from = {from, 0}, .into = {}};
    for (const std::uint32_t into : layout.members(into_node)) {
      if (!takes_part(post, from, into)) continue;
      const BlockPlace place{into, gets_row(post.call) ? from : 0};
      if (has_row(post.call)) {
        all.push_back({.from = {from, into}, .into = {place}});
      } else {
        shared.into.push_back(place);
      }
    }
    if (!shared.into.empty()) all.push_back(std::move(shared));
  }
  return all;
}

}  // namespace outrigger::group
