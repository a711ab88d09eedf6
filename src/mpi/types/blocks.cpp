#include "mpi/types/blocks.hpp"

#include <algorithm>

#include "base/no_cancellation.hpp"
#include "client/rank_endpoint.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::uint64_t kStagingAlignment = 16;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

}  // namespace

MPI_Datatype lasting_type(MPI_Datatype type) {
  MPI_Datatype made{};
  if (real().Type_contiguous(1, type, &made) != MPI_SUCCESS || real().Type_commit(&made) != MPI_SUCCESS) {
    die("%s cannot make a datatype that lasts as long as an operation", kAbiName);
  }
  return made;
}

void Blocks::make_lists() {
  counts_.resize(peers_);
  offsets_.resize(peers_);
  if (form_ == Form::typed) typed_.resize(peers_);
}

void Blocks::sum_up() {
  total_bytes_ = largest_bytes_ = 0;
  bool dense = true;
  for (std::uint32_t i = 0; i < peers_; ++i) {
    total_bytes_ += bytes_of(i);
    largest_bytes_ = std::max(largest_bytes_, bytes_of(i));
    dense = dense && (bytes_of(i) == 0 || shape(i).dense_for(counts_[i]));
  }
  dense_ = total_bytes_ == 0 || (dense && !lies_apart());
}

void Blocks::set_shared(const void* buffer, std::int64_t count, MPI_Datatype type, const TypeShape& shape,
                        std::uint32_t peers, const NeighborSide* neighbors) {
  start(Form::shared, buffer, peers);
  different_ = std::min(1U, peers);
  neighbors_ = neighbors;
  set_equal(count, type, shape);
  stride_ = 0;
  dense_ = dense_ && !(lies_apart() && total_bytes_ != 0);
}

HandedPair pair_with(const Blocks& blocks, std::uint32_t rank) {
  const NeighborSide* side = blocks.neighbors();
  if (side == nullptr) return {rank, blocks.bytes_of(rank)};
  const auto found = std::ranges::lower_bound(side->ranks, rank);
  if (found == side->ranks.end() || *found != rank) return {};
  const auto place = static_cast<std::size_t>(found - side->ranks.begin());
  HandedPair pair{side->first[place], 0};
  for (std::uint32_t peer = pair.peer; peer < side->first[place + 1]; ++peer) pair.bytes += blocks.bytes_of(peer);
  return pair;
}

void Blocks::end_run(client::RankEndpoint& client) {
  if (staging_ == nullptr) return;
  if (!staging_handed_over_) client.staging().release(staging_);
  staging_ = nullptr;
  staging_handed_over_ = false;
}

void Blocks::give_back(client::RankEndpoint* client) {
  if (client != nullptr) end_run(*client);
  staging_ = nullptr;
  staging_handed_over_ = false;
  for (MPI_Datatype& type : lasting_) real().Type_free(&type);
  lasting_.clear();
}

void Blocks::list_in_buffer() {
  extents_.resize(peers_);
  for (std::uint32_t i = 0; i < peers_; ++i) {
    const std::uint64_t bytes = bytes_of(i);
    extents_[i] = PairExtent{bytes == 0 ? 0 : offset_of(i) + shape(i).first, bytes};
  }
  hand_over(address_of(buffer_, 0));
}

bool Blocks::use_staging(client::RankEndpoint& client) {
  std::uint64_t needed = 0;
  buffer_handed_ = false;
  if (by_extents()) {
    extents_.resize(peers_);
    for (std::uint32_t i = 0; i < peers_; ++i) {
      // Those of one neighbor without a gap.
      if (neighbors_ == nullptr || i == 0 || neighbors_->rank_of(i) != neighbors_->rank_of(i - 1))
        needed = aligned(needed);
      extents_[i] = PairExtent{form_ == Form::shared ? 0 : static_cast<std::int64_t>(needed), bytes_of(i)};
      needed = form_ == Form::shared ? bytes_of(i) : needed + bytes_of(i);
    }
  } else {
    needed = aligned(bytes_of(0)) * different_;
  }
  staging_ = client.staging().allocate(std::max<std::uint64_t>(needed, kStagingAlignment));
  if (staging_ == nullptr) return false;
  const std::uint64_t stride = form_ == Form::regular ? aligned(bytes_of(0)) : 0;
  by_extents() ? hand_over(staging_) : hand_over_alike(staging_, static_cast<std::int64_t>(stride));
  return true;
}

void Blocks::hand_over(const void* base) {
  handed_ = {base, 0, 0, extents_};
  if (neighbors_ == nullptr || !neighbors_->repeats()) return;
  joined_.clear();
  for (std::size_t i = 0; i < neighbors_->ranks.size(); ++i) {
    joined_.push_back(PairExtent{extents_[neighbors_->first[i]].offset_bytes, 0});
    for (std::uint32_t peer = neighbors_->first[i]; peer < neighbors_->first[i + 1]; ++peer) {
      joined_.back().bytes += extents_[peer].bytes;
    }
  }
  handed_.extents = joined_;
}

void Blocks::copy(Packing direction, MPI_Comm comm, std::uint32_t skip) {
  const NoCancellation whole;  // others wait for the blocks
  for (std::uint32_t peer = 0; peer < different_; ++peer) {
    if (peer == skip || bytes_of(peer) == 0) continue;
    const MPI_Datatype type = form_ == Form::typed ? typed_[peer].type : type_;
    const TypedElements elements{address_of(buffer_, offset_of(peer)), count_of(peer), type, shape(peer)};
    copy_packed(direction, elements, handed(peer), comm);
  }
}

void Blocks::keep_type() {
  if (!lasting_.empty()) return;
  if (form_ != Form::typed) {
    if (shape_.predefined) return;
    lasting_.push_back(lasting_type(type_));
    type_ = lasting_.back();
    return;
  }
  MPI_Datatype given{};  // the program's; several peers in a row often have one
  for (Typed& typed : typed_) {
    if (typed.shape.predefined || typed.shape.size == 0) continue;
    if (lasting_.empty() || typed.type != given) {
      given = typed.type;
      lasting_.push_back(lasting_type(given));
    }
    typed.type = lasting_.back();
  }
}

}  // namespace outrigger::mpi
