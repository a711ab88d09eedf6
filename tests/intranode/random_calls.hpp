// A random sequence of collectives, which every member makes alike from a seed, and what each must give.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "intranode/team.hpp"
#include "reduce/reduce.hpp"

namespace outrigger::intranode {

using Bytes = std::vector<std::byte>;

inline constexpr Reduction kDoubleSum{ReduceOperation::sum, ElementType::float64};

// A balanced tree over members [low, high), so that sums depend on the order.
inline std::string balanced_tree(std::uint32_t low, std::uint32_t high) {
  if (high - low == 1) return std::to_string(low);
  const std::uint32_t middle = low + (high - low + 1) / 2;
  return "(" + balanced_tree(low, middle) + "," + balanced_tree(middle, high) + ")";
}

// One after the other: calls that one member makes of its team. Bytes that each member contributes come from the call's
// number and the member, so that every member can compute what the others sent.
class RandomCalls {
 public:
  // Blocks are shorter than `most` bytes.
  // `shared`: a byte for each member, that only barriers order. `own`: memory of this member that others may copy from
  // and to during a call, buffer_bytes() of it.
  RandomCalls(Team& team, std::uint64_t seed, std::size_t most, std::byte* shared, std::span<std::byte> own)
      : team_(team), random_(seed), most_(most), shared_(shared), own_(own) {}
  [[nodiscard]] static std::size_t buffer_bytes(std::uint32_t members, std::size_t most) {
    return (2 * most + 8) * (members + 1);
  }

  // Makes the next call. Returns an error about its result, or nothing.
  [[nodiscard]] std::string next() {
    ++call_;
    kind_ = static_cast<int>(random_() % 16);
    in_place_ = random_() % 2 == 0;
    root_ = static_cast<std::uint32_t>(random_() % size());
    // Many short blocks, some longer than a slot, some empty.
    const std::uint64_t choice = random_() % 8;
    length_ = choice == 0 ? 0 : random_() % (choice < 6 ? std::min<std::size_t>(most_, 64) : most_);
    used_ = 0;
    const bool right = make_call();
    write_over();
    if (right) return "";
    return "call " + std::to_string(call_) + " of kind " + std::to_string(kind_) + ", " + std::to_string(length_) +
           " bytes, root " + std::to_string(root_) + (in_place_ ? ", in place" : "") + ", member " +
           std::to_string(rank());
  }

 private:
  [[nodiscard]] std::uint32_t size() const { return team_.size(); }
  [[nodiscard]] std::uint32_t rank() const { return team_.rank(); }

  // The block from `from` to `to` in this call: `bytes` of it.
  [[nodiscard]] Bytes sent(std::uint32_t from, std::uint32_t to, std::size_t bytes) const {
    Bytes data(bytes);
    std::uint64_t state = call_ * 1'000'003 + from * 1009 + to * 31 + 7;
    for (std::byte& byte : data) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<std::byte>(state >> 56);
    }
    return data;
  }
  // Numbers whose sum shows the order of additions.
  [[nodiscard]] Bytes numbers(std::uint32_t from, std::size_t count) const {
    std::mt19937_64 random(call_ * 131 + from);
    Bytes data(count * sizeof(double));
    for (std::size_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(random() % 1000) * (random() % 3 == 0 ? 1e-17 : 1.0);
      std::memcpy(data.data() + i * sizeof value, &value, sizeof value);
    }
    return data;
  }
  [[nodiscard]] static Bytes sum_of(const std::vector<Bytes>& all, std::uint32_t low, std::uint32_t high) {
    if (high - low == 1) return all[low];
    const std::uint32_t middle = low + (high - low + 1) / 2;
    const Bytes left = sum_of(all, low, middle);
    const Bytes right = sum_of(all, middle, high);
    Bytes into(left.size());
    reduce::apply(kDoubleSum, left, right, into);
    return into;
  }
  [[nodiscard]] static SumOrder order_of(std::uint32_t members) {
    return SumOrder(SumTree::parse(balanced_tree(0, members)).value());
  }
  // The length of the block of a pair; the same for both where `symmetric`.
  [[nodiscard]] std::size_t length_of(std::uint32_t from, std::uint32_t to, bool symmetric) const {
    if (symmetric && from > to) std::swap(from, to);
    return length_ == 0 ? 0 : (from * 7919 + to * 104'729 + call_) % length_;
  }

  // Memory for a buffer of this call.
  [[nodiscard]] std::span<std::byte> buffer(std::size_t bytes) {
    const std::span<std::byte> found = own_.subspan(used_, bytes);
    used_ += bytes;
    steps::writes(found.data(), bytes);
    std::fill(found.begin(), found.end(), std::byte{0});
    return found;
  }
  [[nodiscard]] std::span<std::byte> buffer(const Bytes& contents) {
    const std::span<std::byte> found = buffer(contents.size());
    std::copy(contents.begin(), contents.end(), found.begin());
    return found;
  }
  // After a call buffers are the caller's again.
  void write_over() {
    steps::writes(own_.data(), used_);
    std::fill_n(own_.begin(), used_, std::byte{0xa5});
  }

  struct Layout {
    std::vector<std::uint64_t> bytes;
    std::vector<std::uint64_t> offsets;
    std::uint64_t total = 0;
    void add(std::uint64_t block, std::uint64_t gap = 3) {
      total += gap;
      bytes.push_back(block);
      offsets.push_back(total);
      total += block;
    }
    [[nodiscard]] Blocks in(std::span<std::byte> memory) const {
      return Blocks::irregular(memory.data(), bytes.data(), offsets.data());
    }
  };
  static bool equals(std::span<const std::byte> block, const Bytes& expected) {
    steps::reads(block.data(), block.size());
    return block.size() == expected.size() && std::equal(block.begin(), block.end(), expected.begin());
  }

  [[nodiscard]] bool make_call() {
    switch (kind_) {
      case 0: return barrier();
      case 1: return broadcast();
      case 2: return gather(true);
      case 3: return gather(false);
      case 4: return scatter(true);
      case 5: return scatter(false);
      case 6: return allgather(true);
      case 7: return allgather(false);
      case 8: return alltoall(true);
      case 9: return alltoall(false);
      case 10: return reduce();
      case 11: return allreduce();
      case 12: return reduce_scatter();
      case 13: return allreduce_directly();
      case 14: return reduce_scatter_directly();
      default: return in_place_ || call_ % 2 == 0 ? scan() : scan_by_all();
    }
  }

  bool barrier() {
    steps::writes(shared_ + rank(), 1);
    shared_[rank()] = static_cast<std::byte>(call_);
    if (team_.barrier() != Outcome::done) return false;
    for (std::uint32_t i = 0; i < size(); ++i) {
      steps::reads(shared_ + i, 1);
      if (shared_[i] != static_cast<std::byte>(call_)) return false;
    }
    return team_.barrier() == Outcome::done;
  }

  bool broadcast() {
    const Bytes expected = sent(root_, 0, length_);
    const std::span<std::byte> data = buffer(rank() == root_ ? expected : Bytes(length_));
    return team_.broadcast(data, root_) == Outcome::done && equals(data, expected);
  }

  bool gather(bool equal) {
    Layout layout;
    for (std::uint32_t i = 0; i < size(); ++i) layout.add(equal ? length_ : length_of(i, 0, false));
    const std::span<std::byte> mine = buffer(sent(rank(), 0, layout.bytes[rank()]));
    const std::span<std::byte> memory = buffer(rank() == root_ && !equal ? layout.total : 0);
    const std::span<std::byte> row = buffer(rank() == root_ && equal ? length_ * size() : 0);
    const Blocks into = rank() != root_ ? Blocks{} : equal ? Blocks::regular(row.data(), length_) : layout.in(memory);
    std::span<const std::byte> given = mine;
    if (rank() == root_ && in_place_) {
      std::copy(mine.begin(), mine.end(), into.of(root_).begin());
      given = into.of(root_);
    }
    const Outcome outcome = equal ? team_.gather(given, into, root_) : team_.gatherv(given, into, root_);
    if (outcome != Outcome::done) return false;
    for (std::uint32_t i = 0; rank() == root_ && i < size(); ++i) {
      if (!equals(into.of(i), sent(i, 0, layout.bytes[i]))) return false;
    }
    return true;
  }

  bool scatter(bool equal) {
    Layout layout;
    for (std::uint32_t i = 0; i < size(); ++i) layout.add(equal ? length_ : length_of(0, i, false));
    const std::span<std::byte> memory = buffer(equal ? 0 : layout.total);
    const std::span<std::byte> row = buffer(equal ? length_ * size() : 0);
    const Blocks from = equal ? Blocks::regular(row.data(), length_) : layout.in(memory);
    for (std::uint32_t i = 0; rank() == root_ && i < size(); ++i) {
      const Bytes block = sent(root_, i, layout.bytes[i]);
      std::copy(block.begin(), block.end(), from.of(i).begin());
    }
    Bytes apart(layout.bytes[rank()]);
    const std::span<std::byte> mine = rank() == root_ && in_place_ ? from.of(root_) : std::span(apart);
    const Blocks given = rank() == root_ ? from : Blocks{};
    const Outcome outcome = equal ? team_.scatter(given, mine, root_) : team_.scatterv(given, mine, root_);
    return outcome == Outcome::done && equals(mine, sent(root_, rank(), layout.bytes[rank()]));
  }

  bool allgather(bool equal) {
    Layout layout;
    for (std::uint32_t i = 0; i < size(); ++i) layout.add(equal ? length_ : length_of(i, 0, false));
    const std::span<std::byte> memory = buffer(equal ? 0 : layout.total);
    const std::span<std::byte> row = buffer(equal ? length_ * size() : 0);
    const Blocks into = equal ? Blocks::regular(row.data(), length_) : layout.in(memory);
    const std::span<std::byte> mine = buffer(sent(rank(), 0, layout.bytes[rank()]));
    std::span<const std::byte> given = mine;
    if (in_place_) {
      std::copy(mine.begin(), mine.end(), into.of(rank()).begin());
      given = into.of(rank());
    }
    if (team_.allgather(given, into) != Outcome::done) return false;
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (!equals(into.of(i), sent(i, 0, layout.bytes[i]))) return false;
    }
    return true;
  }

  bool alltoall(bool equal) {
    Layout out;
    Layout in;
    for (std::uint32_t i = 0; i < size(); ++i) {
      out.add(equal ? length_ : length_of(rank(), i, in_place_));
      in.add(equal ? length_ : length_of(i, rank(), in_place_));
    }
    const std::span<std::byte> out_memory = buffer(equal ? length_ * size() : out.total);
    const std::span<std::byte> in_memory = buffer(equal ? length_ * size() : in.total);
    const Blocks from = equal ? Blocks::regular(out_memory.data(), length_) : out.in(out_memory);
    const Blocks into = in_place_ ? from : equal ? Blocks::regular(in_memory.data(), length_) : in.in(in_memory);
    for (std::uint32_t i = 0; i < size(); ++i) {
      const Bytes block = sent(rank(), i, out.bytes[i]);
      std::copy(block.begin(), block.end(), from.of(i).begin());
    }
    const Outcome outcome = in_place_ ? team_.alltoall_in_place(from, equal)
                            : equal   ? team_.alltoall(from, into)
                                      : team_.alltoallv(from, into);
    if (outcome != Outcome::done) return false;
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (!equals(into.of(i), sent(i, rank(), in.bytes[i]))) return false;
    }
    return true;
  }

  [[nodiscard]] std::vector<Bytes> all_numbers(std::size_t count) const {
    std::vector<Bytes> all;
    for (std::uint32_t i = 0; i < size(); ++i) all.push_back(numbers(i, count));
    return all;
  }

  bool reduce() {
    const std::size_t count = length_ / sizeof(double);
    const std::vector<Bytes> all = all_numbers(count);
    Bytes mine = all[rank()];
    Bytes apart(mine.size());
    Bytes& into = in_place_ ? mine : apart;
    const SumOrder order = order_of(size());
    const OrderCombine combine(kDoubleSum, order);
    std::byte* result = rank() == root_ ? into.data() : nullptr;
    if (team_.reduce(mine, result, combine, root_) != Outcome::done) return false;
    return rank() != root_ || into == sum_of(all, 0, size());
  }

  bool allreduce() {
    const std::size_t count = length_ / sizeof(double);
    const std::vector<Bytes> all = all_numbers(count);
    Bytes mine = all[rank()];
    Bytes apart(mine.size());
    Bytes& into = in_place_ ? mine : apart;
    const SumOrder order = order_of(size());
    const OrderCombine combine(kDoubleSum, order);
    return team_.allreduce(mine, into.data(), combine) == Outcome::done && into == sum_of(all, 0, size());
  }

  // In a row.
  [[nodiscard]] Layout blocks_of_numbers() const {
    Layout blocks;
    for (std::uint32_t i = 0; i < size(); ++i) {
      blocks.add(length_of(0, i, false) / sizeof(double) * sizeof(double), 0);
    }
    return blocks;
  }

  bool reduce_scatter() {
    const Layout blocks = blocks_of_numbers();
    const std::vector<Bytes> all = all_numbers(blocks.total / sizeof(double));
    Bytes mine = all[rank()];
    Bytes apart(blocks.bytes[rank()]);
    const SumOrder order = order_of(size());
    const OrderCombine combine(kDoubleSum, order);
    std::byte* into = in_place_ ? mine.data() : apart.data();
    if (team_.reduce_scatter(mine.data(), blocks.bytes, into, combine) != Outcome::done) return false;
    const Bytes sum = sum_of(all, 0, size());
    const auto first = sum.begin() + static_cast<std::ptrdiff_t>(blocks.offsets[rank()]);
    return std::equal(into, into + blocks.bytes[rank()], first);
  }

  bool allreduce_directly() {
    if (!team_.copies_directly()) return allreduce();
    const std::vector<Bytes> all = all_numbers(length_ / sizeof(double));
    const std::span<std::byte> mine = buffer(all[rank()]);
    const std::span<std::byte> into = in_place_ ? mine : buffer(mine.size());
    const SumOrder order = order_of(size());
    const OrderCombine combine(kDoubleSum, order);
    return team_.allreduce_directly(mine, into.data(), combine) == Outcome::done &&
           equals(into, sum_of(all, 0, size()));
  }

  bool reduce_scatter_directly() {
    if (!team_.copies_directly()) return reduce_scatter();
    const Layout blocks = blocks_of_numbers();
    const std::vector<Bytes> all = all_numbers(blocks.total / sizeof(double));
    const std::span<std::byte> mine = buffer(all[rank()]);
    const std::uint64_t own = blocks.bytes[rank()];
    const std::span<std::byte> into = in_place_ ? mine.first(own) : buffer(own);
    const SumOrder order = order_of(size());
    const OrderCombine combine(kDoubleSum, order);
    if (team_.reduce_scatter_directly(mine.data(), blocks.bytes, into.data(), combine) != Outcome::done) return false;
    const Bytes sum = sum_of(all, 0, size());
    const auto first = sum.begin() + static_cast<std::ptrdiff_t>(blocks.offsets[rank()]);
    return equals(into, Bytes(first, first + static_cast<std::ptrdiff_t>(own)));
  }

  bool scan() {
    const std::size_t count = length_ / sizeof(double);
    const bool with_own = root_ % 2 == 0;
    const std::vector<Bytes> all = all_numbers(count);
    Bytes mine = all[rank()];
    Bytes apart(mine.size());
    Bytes& into = in_place_ ? mine : apart;
    const Bytes before = into;
    const std::uint32_t members = with_own ? rank() + 1 : std::max(rank(), 1U);
    const SumOrder order = order_of(members);
    const OrderCombine combine(kDoubleSum, order);
    const Outcome outcome =
        with_own ? team_.scan(mine, into.data(), combine) : team_.exscan(mine, into.data(), combine);
    if (outcome != Outcome::done) return false;
    return into == (with_own || rank() > 0 ? sum_of(all, 0, members) : before);
  }
  // Where all look at all contributions.
  bool scan_by_all() {
    const std::size_t count = std::min(length_, PrefixCombine::kMostBytes) / sizeof(double);
    const std::vector<Bytes> all = all_numbers(count);
    Bytes into(count * sizeof(double));
    const SumOrder order = order_of(rank() + 1);
    const SumOrder of_all = order_of(size());
    const PrefixCombine combine(kDoubleSum, order, of_all);
    const Outcome outcome = team_.combine_by_all(CollectiveCall::scan, 0, all[rank()], into.data(), combine);
    return outcome == Outcome::done && into == sum_of(all, 0, rank() + 1) && !combine.asks_native();
  }

  Team& team_;
  std::mt19937_64 random_;
  std::size_t most_;
  std::byte* shared_;
  std::span<std::byte> own_;
  std::size_t used_ = 0;
  std::uint64_t call_ = 0;
  int kind_ = 0;
  bool in_place_ = false;
  std::uint32_t root_ = 0;
  std::size_t length_ = 0;
};

}  // namespace outrigger::intranode
