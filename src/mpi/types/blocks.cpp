#include "mpi/types/blocks.hpp"

#include <algorithm>
#include <utility>

#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::uint64_t kStagingAlignment = 16;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

}  // namespace

void Blocks::start(Form form, const void* buffer, std::uint32_t peers) {
  form_ = form;
  buffer_ = buffer;
  buffer_handed_ = false;
  peers_ = peers;
  if (!listed()) return;
  counts_.resize(peers);
  offsets_.resize(peers);
  if (form == Form::typed) typed_.resize(peers);
}

void Blocks::sum_up() {
  total_bytes_ = largest_bytes_ = 0;
  bool dense = true;
  if (listed()) {
    for (std::uint32_t i = 0; i < peers_; ++i) {
      total_bytes_ += bytes_of(i);
      largest_bytes_ = std::max(largest_bytes_, bytes_of(i));
      dense = dense && (bytes_of(i) == 0 || shape(i).dense_for(counts_[i]));
    }
  } else {
    total_bytes_ = different() * bytes_of(0);
    largest_bytes_ = peers_ == 0 ? 0 : bytes_of(0);
    dense = shape_.dense_for(count_);
  }
  dense_ = total_bytes_ == 0 || dense;
}

void Blocks::set_regular(const void* buffer, std::int64_t count, MPI_Datatype type, const TypeShape& shape,
                         std::uint32_t peers) {
  start(Form::regular, buffer, peers);
  type_ = type;
  shape_ = shape;
  count_ = count;
  sum_up();
}

void Blocks::set_shared(const void* buffer, std::int64_t count, MPI_Datatype type, const TypeShape& shape,
                        std::uint32_t peers) {
  set_regular(buffer, count, type, shape, peers);
  form_ = Form::shared;
  sum_up();
}

void Blocks::end_run(client::Client& client) {
  if (staging_ != nullptr && !staging_handed_over_) client.release_staging(staging_);
  staging_ = nullptr;
  staging_handed_over_ = false;
}

void Blocks::reset(client::Client* client) {
  if (client != nullptr) end_run(*client);
  staging_ = nullptr;
  staging_handed_over_ = false;
  handed_ = {};
  buffer_handed_ = false;
  if (!type_kept_) return;
  type_kept_ = false;
  if (form_ != Form::typed) {
    real().Type_free(&type_);
    return;
  }
  for (Typed& typed : typed_) {
    if (!typed.shape.predefined && typed.shape.size != 0) real().Type_free(&typed.type);
  }
}

void Blocks::use_buffer() {
  if (std::exchange(buffer_handed_, true)) return;
  if (listed()) {
    extents_.resize(peers_);
    for (std::uint32_t i = 0; i < peers_; ++i) {
      const std::uint64_t bytes = bytes_of(i);
      extents_[i] = PairExtent{bytes == 0 ? 0 : offset_of(i) + shape(i).first, bytes};
    }
    handed_ = {address_of(buffer_, 0), 0, 0, extents_};
  } else if (total_bytes_ != 0) {
    handed_ = {address_of(buffer_, shape_.first), stride(), bytes_of(0), {}};
  }
}

bool Blocks::use_staging(client::Client& client) {
  std::uint64_t needed = 0;
  buffer_handed_ = false;
  if (listed()) {
    extents_.resize(peers_);
    for (std::uint32_t i = 0; i < peers_; ++i) {
      extents_[i] = PairExtent{static_cast<std::int64_t>(needed), bytes_of(i)};
      needed += aligned(bytes_of(i));
    }
  } else {
    needed = aligned(bytes_of(0)) * different();
  }
  staging_ = client.allocate_staging(std::max<std::uint64_t>(needed, kStagingAlignment));
  if (staging_ == nullptr) return false;
  const std::uint64_t stride = form_ == Form::regular ? aligned(bytes_of(0)) : 0;
  if (listed()) {
    handed_ = {staging_, 0, 0, extents_};
  } else if (total_bytes_ != 0) {
    handed_ = {staging_, static_cast<std::int64_t>(stride), bytes_of(0), {}};
  }
  return true;
}

void Blocks::copy(Packing direction, MPI_Comm comm, std::uint32_t skip) {
  for (std::uint32_t peer = 0; peer < different(); ++peer) {
    if (peer == skip || bytes_of(peer) == 0) continue;
    const TypedElements elements{address_of(buffer_, offset_of(peer)), count_of(peer), type(peer), shape(peer)};
    copy_packed(direction, elements, handed(peer), comm);
  }
}

void Blocks::keep_type() {
  if (type_kept_) return;
  const auto keep = [](MPI_Datatype& type) {
    if (real().Type_dup(type, &type) != MPI_SUCCESS) die("%s cannot duplicate a datatype", kAbiName);
  };
  if (form_ != Form::typed) {
    if (shape_.predefined) return;
    keep(type_);
  } else {
    for (Typed& typed : typed_) {
      if (!typed.shape.predefined && typed.shape.size != 0) keep(typed.type);
    }
  }
  type_kept_ = true;
}

}  // namespace outrigger::mpi
