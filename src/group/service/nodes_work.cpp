#include "group/service/nodes_work.hpp"

#include <algorithm>
#include <utility>

#include "group/service/member_memory.hpp"

namespace outrigger::group {

NodesWork::NodesWork(ServiceArea area, const MemberProcesses& processes, const Layout& layout, PeerServices& peers)
    : area_(std::move(area)),
      processes_(processes),
      layout_(layout),
      peers_(peers),
      orders_(layout),
      slots_(kSlots),
      sends_(layout.nodes()),
      receives_(layout.nodes()) {
  for (Slot& slot : slots_)
    slot = {.partials = std::vector<std::vector<std::byte>>(layout.nodes()), .sends = sends_, .receives = receives_};
}

NodesWork::Result NodesWork::run() {
  switch (peers_.agree(first_post().number, arguments())) {
    case PeerServices::Verdict::apart: return Result::by_members;
    case PeerServices::Verdict::ended: return Result::ended;
    case PeerServices::Verdict::together: break;
  }
  peers_.transfers().begin(intranode::CallWord(CollectiveCall::alltoall, 0, 0));
  if (is_reduction(first_post().call) ? reductions() : copies()) return Result::done;
  if (const auto difference = peers_.transfers().difference()) {
    const std::uint32_t other = layout_.members(difference->other).front();
    const Failure failure{.kind = FailureKind::different, .about = other, .noticed = layout_.rank()};
    area_.head().failure.store(failure.word(), std::memory_order_release);
  }
  return Result::ended;
}

std::uint64_t NodesWork::arguments() {
  const Post& first = first_post();
  combine_.reset();
  if (is_reduction(first.call) && bytes_of_type(first.type) != 0) {
    combine_ = NodesCombine::of(first.type, first.operation, orders_);
  }
  const std::uint64_t element = combine_ ? combine_->element_bytes() : 0;
  const std::uint64_t call = arguments_of(first, layout_.rank(), layout_.size(), element);
  for (const std::uint32_t rank : layout_.here()) {
    if (arguments_of(post(rank), rank, layout_.size(), element) != call || !can_reach(rank)) return 0;
  }
  return call;
}

bool NodesWork::can_reach(std::uint32_t rank) {
  const Post& one = post(rank);
  std::byte any{};
  for (const auto* blocks : {&one.from, &one.into}) {
    const auto found = std::ranges::find_if(*blocks, [](const PostedBlock& block) { return block.bytes > 0; });
    if (found == blocks->end()) continue;
    const Touching touching(area_.head());
    return touching.may() && read_member(processes_, layout_.place_of(rank), found->address, {&any, 1});
  }
  return true;
}

bool NodesWork::read(std::uint32_t rank, std::uint64_t address, std::span<std::byte> to) {
  const Touching touching(area_.head());
  if (!touching.may()) return false;
  if (read_member(processes_, layout_.place_of(rank), address, to)) return true;
  fail(rank);
  return false;
}
bool NodesWork::write(std::uint32_t rank, std::uint64_t address, std::span<const std::byte> from) {
  const Touching touching(area_.head());
  if (!touching.may()) return false;
  if (write_member(processes_, layout_.place_of(rank), address, from)) return true;
  fail(rank);
  return false;
}

void NodesWork::fail(std::uint32_t rank) {
  const bool died = processes_.has_ended(layout_.place_of(rank));
  const Failure failure{.kind = died ? FailureKind::died : FailureKind::no_memory, .about = rank, .noticed = rank};
  area_.head().failure.store(failure.word(), std::memory_order_release);
}

bool NodesWork::wait_for_all() {
  return peers_.wait([&] { return !peers_.transfers().is_pending(true); });
}

// --- copies ---

bool NodesWork::copies() {
  for (const Shipment& one : shipments(first_post(), layout_, layout_.node(), layout_.node())) {
    if (!copy_here(one)) return false;
  }
  if (!compare_lengths()) return false;
  std::vector<Lane> out(layout_.nodes());
  std::vector<Lane> in(layout_.nodes());
  for_each_elsewhere([&](std::uint32_t node) {
    out[node].shipments = shipments(first_post(), layout_, layout_.node(), node);
    in[node].shipments = shipments(first_post(), layout_, node, layout_.node());
  });
  bool goes_on = true;
  const auto is_over = [&] {
    bool moves = false;
    for_each_elsewhere([&](std::uint32_t node) {
      goes_on = goes_on && receive_on(node, in[node]) && send_on(node, out[node]);
      moves = moves || in[node].is_under_way || out[node].is_under_way;
    });
    return !goes_on || !moves;
  };
  return peers_.wait(is_over) && goes_on;
}

bool NodesWork::copy_here(const Shipment& shipment) {
  const PostedBlock& from = post(shipment.from.rank).from[shipment.from.block];
  for (std::uint64_t done = 0; done < from.bytes; done += kPieceBytes) {
    scratch_.resize(std::min(kPieceBytes, from.bytes - done));
    if (!read(shipment.from.rank, from.address + done, scratch_)) return false;
    for (const BlockPlace& place : shipment.into) {
      const PostedBlock& into = post(place.rank).into[place.block];
      const bool is_same = place.rank == shipment.from.rank && into.address == from.address;
      if (!is_same && !write(place.rank, into.address + done, scratch_)) return false;
    }
  }
  return true;
}

// Both ends of a pair know its length alone.
bool NodesWork::compare_lengths() {
  if (first_post().call != PostedCall::all_to_all) return true;
  std::vector<std::vector<std::uint64_t>> given(layout_.nodes());
  std::vector<std::vector<std::uint64_t>> theirs(layout_.nodes());
  const auto list = [&](std::uint32_t from, std::uint32_t into) {
    return shipments(first_post(), layout_, from, into);
  };
  for_each_elsewhere([&](std::uint32_t node) {
    given[node] = lengths(list(layout_.node(), node), true);
    theirs[node].resize(list(node, layout_.node()).size());
    peers_.transfers().receive(node, std::as_writable_bytes(std::span(theirs[node])));
    peers_.transfers().send(node, std::as_bytes(std::span(given[node])));
  });
  if (!wait_for_all()) return false;
  std::optional<std::uint32_t> other;
  for_each_elsewhere([&](std::uint32_t node) {
    if (theirs[node] != lengths(list(node, layout_.node()), false)) other = layout_.members(node).front();
  });
  if (!other) return true;
  const Failure failure{.kind = FailureKind::different, .about = *other, .noticed = layout_.rank()};
  area_.head().failure.store(failure.word(), std::memory_order_release);
  return false;
}

std::uint64_t NodesWork::length(const Shipment& shipment, bool given) const {
  if (given) return post(shipment.from.rank).from[shipment.from.block].bytes;
  const BlockPlace& first = shipment.into.front();
  return post(first.rank).into[first.block].bytes;
}

std::vector<std::uint64_t> NodesWork::lengths(const std::vector<Shipment>& list, bool given) const {
  std::vector<std::uint64_t> all;
  for (const Shipment& one : list) all.push_back(length(one, given));
  return all;
}

std::uint64_t NodesWork::next_piece(Lane& lane, bool given) const {
  while (lane.next < lane.shipments.size()) {
    const std::uint64_t left = length(lane.shipments[lane.next], given) - lane.moved;
    if (left > 0) return std::min(kPieceBytes, left);
    ++lane.next;
    lane.moved = 0;
  }
  return 0;
}

bool NodesWork::send_on(std::uint32_t node, Lane& lane) {
  if (peers_.transfers().has_sends(node)) return true;
  const std::uint64_t bytes = next_piece(lane, true);
  lane.is_under_way = bytes > 0;
  if (bytes == 0) return true;
  lane.piece.resize(bytes);
  const BlockPlace& from = lane.shipments[lane.next].from;
  if (!read(from.rank, post(from.rank).from[from.block].address + lane.moved, lane.piece)) return false;
  lane.moved += bytes;
  peers_.transfers().send(node, lane.piece);
  return true;
}

bool NodesWork::receive_on(std::uint32_t node, Lane& lane) {
  if (peers_.transfers().has_receives(node)) return true;
  if (lane.is_under_way) {
    for (const BlockPlace& place : lane.shipments[lane.next].into) {
      if (!write(place.rank, post(place.rank).into[place.block].address + lane.moved, lane.piece)) return false;
    }
    lane.moved += lane.piece.size();
  }
  const std::uint64_t bytes = next_piece(lane, false);
  lane.is_under_way = bytes > 0;
  if (bytes == 0) return true;
  lane.piece.resize(bytes);
  peers_.transfers().receive(node, lane.piece);
  return true;
}

// --- reductions ---

bool NodesWork::reductions() {
  for_each_elsewhere([&](std::uint32_t node) {
    sends_[node] = peers_.transfers().sent(node);
    receives_[node] = peers_.transfers().received(node);
  });
  const std::vector<Round> rounds =
      rounds_of(first_post(), layout_, combine_->element_bytes(), combine_->partial_bytes());
  for (std::size_t step = 0; step < rounds.size() + 2; ++step) {
    if (step < rounds.size() && !begin_round(rounds[step], slots_[step % kSlots])) return false;
    const std::size_t second = step - 1;
    if (step >= 1 && second < rounds.size() && !combine_share(rounds[second], slots_[second % kSlots])) return false;
    if (step >= 2 && !end_round(rounds[step - 2], slots_[(step - 2) % kSlots])) return false;
  }
  return wait_for_all();
}

void NodesWork::send(std::uint32_t node, std::span<const std::byte> from, Slot& slot) {
  slot.sends[node] = ++sends_[node];
  peers_.transfers().send(node, from);
}
void NodesWork::receive(std::uint32_t node, std::span<std::byte> into, Slot& slot) {
  slot.receives[node] = ++receives_[node];
  peers_.transfers().receive(node, into);
}

bool NodesWork::wait_for_receives(const Slot& slot) {
  return peers_.wait([&] {
    bool all = true;
    for_each_elsewhere(
        [&](std::uint32_t node) { all = all && peers_.transfers().received(node) >= slot.receives[node]; });
    return all;
  });
}

bool NodesWork::begin_round(const Round& round, Slot& slot) {
  const std::uint64_t bytes = combine_->partial_bytes();
  const bool is_free = peers_.wait([&] {
    bool all = true;
    for_each_elsewhere([&](std::uint32_t node) { all = all && peers_.transfers().sent(node) >= slot.sends[node]; });
    return all;
  });
  if (!is_free) return false;
  slot.partial.resize(round.count * bytes);
  if (!combine_here(round, slot.partial)) return false;
  const Share& own = round.shares[layout_.node()];
  for_each_elsewhere([&](std::uint32_t node) {
    const Share& share = round.shares[node];
    slot.partials[node].resize(own.count * bytes);
    if (own.count > 0) receive(node, slot.partials[node], slot);
    if (share.count > 0) send(node, std::span(slot.partial).subspan(share.first * bytes, share.count * bytes), slot);
  });
  return true;
}

// The node's partial result, in pieces for which the contributions stay in the core's cache.
bool NodesWork::combine_here(const Round& round, std::span<std::byte> into) {
  if (layout_.here().size() == 1 && !combine_->widens()) {
    const std::uint64_t address = post(layout_.rank()).from[round.block].address;
    return read(layout_.rank(), address + round.first * combine_->element_bytes(), into);
  }
  const std::uint64_t element = combine_->element_bytes();
  const std::uint64_t partial = combine_->partial_bytes();
  const auto members = static_cast<std::uint32_t>(layout_.here().size());
  const std::uint64_t most = piece_bytes(members) / partial;
  scratch_.resize(most * element);
  wide_.resize(members * most * partial);
  for (std::uint64_t done = 0; done < round.count; done += most) {
    const std::uint64_t count = std::min(most, round.count - done);
    std::byte* const result = into.data() + done * partial;
    std::vector<const std::byte*> contributions;
    for (const std::uint32_t rank : layout_.here()) {
      const std::uint64_t address = post(rank).from[round.block].address + (round.first + done) * element;
      if (!read(rank, address, std::span(scratch_).first(count * element))) return false;
      std::byte* const at = members == 1 ? result : wide_.data() + contributions.size() * count * partial;
      combine_->widen(scratch_.data(), at, count);
      contributions.push_back(at);
    }
    if (members > 1) combine_->within().apply(contributions, result, 0, count);
  }
  return true;
}

bool NodesWork::combine_share(const Round& round, Slot& slot) {
  const std::uint64_t element = combine_->element_bytes();
  const Share& own = round.shares[layout_.node()];
  if (!wait_for_receives(slot)) return false;
  slot.result.resize(round.count * element);
  const auto result_of = [&](const Share& share) {
    return std::span(slot.result).subspan(share.first * element, share.count * element);
  };
  if (own.count > 0) {
    std::vector<const std::byte*> partials;
    for (const std::vector<std::byte>& one : slot.partials) partials.push_back(one.data());
    partials[layout_.node()] = slot.partial.data() + own.first * combine_->partial_bytes();
    combine_->finish(partials, result_of(own).data(), own.count);
  }
  for_each_elsewhere([&](std::uint32_t node) {
    const Share& share = round.shares[node];
    if (round.spreads && share.count > 0) receive(node, result_of(share), slot);
    if (round.spreads && own.count > 0) send(node, result_of(own), slot);
  });
  return true;
}

bool NodesWork::end_round(const Round& round, Slot& slot) {
  if (!wait_for_receives(slot)) return false;
  const std::uint64_t first = round.first * combine_->element_bytes();
  for (const std::uint32_t rank : round.into) {
    if (layout_.is_here(rank) && !write(rank, post(rank).into[0].address + first, slot.result)) return false;
  }
  return true;
}

}  // namespace outrigger::group
