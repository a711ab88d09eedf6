#include "mpi/types/blocks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::uint64_t kStagingAlignment = 16;
constexpr std::int64_t kPackChunkBytes = 1LL << 30;  // MPI counts bytes and elements in int

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

void check_packed(int code, int position, int expected) {
  if (code == MPI_SUCCESS && position == expected) return;
  die("%s packed %d bytes where %d were expected (code %d): cannot continue the collective", kAbiName, position,
      expected, code);
}

// Calls step(first element, elements, bytes) in chunks that MPI can count.
template <class Step>
void in_chunks(std::int64_t count, std::int64_t element_bytes, const Step& step) {
  const std::int64_t chunk = kPackChunkBytes / element_bytes;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t elements = std::min(chunk, count - first);
    step(first, static_cast<int>(elements), static_cast<int>(elements * element_bytes));
  }
}

// Elements at an address as PMPI_Pack takes them. MPICH refuses a null address even where the type's displacements are
// addresses; then the same bytes are described from another place.
class Elements {
 public:
  Elements(std::byte* address, int count, MPI_Datatype type) : address_(address), count_(count), type_(type) {
    if (address != nullptr) return;
    const MPI_Aint back = -kShift;
    const bool made = real().Type_create_hindexed(1, &count, &back, type, &type_) == MPI_SUCCESS &&
                      real().Type_commit(&type_) == MPI_SUCCESS;
    if (!made) die("%s cannot describe data at MPI_BOTTOM", kAbiName);
    address_ = reinterpret_cast<std::byte*>(kShift);
    count_ = 1;
    shifted_ = true;
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;
  ~Elements() {
    if (shifted_) real().Type_free(&type_);
  }
  [[nodiscard]] std::byte* address() const { return address_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  static constexpr MPI_Aint kShift = 4096;
  std::byte* address_;
  int count_;
  MPI_Datatype type_;
  bool shifted_ = false;
};

// So many bytes in one piece, however many: one element of a datatype.
class Bytes {
 public:
  explicit Bytes(std::int64_t bytes) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> offsets;
    for (std::int64_t offset = 0; offset < bytes; offset += kPackChunkBytes) {
      lengths.push_back(static_cast<int>(std::min(kPackChunkBytes, bytes - offset)));
      offsets.push_back(static_cast<MPI_Aint>(offset));
    }
    const bool made = real().Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(),
                                                  constants().byte, &type_) == MPI_SUCCESS &&
                      real().Type_commit(&type_) == MPI_SUCCESS;
    if (!made) die("%s cannot describe %lld bytes", kAbiName, static_cast<long long>(bytes));
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { real().Type_free(&type_); }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_{};
};

// Elements that are too large for PMPI_Pack to count their bytes go as a message of this rank to itself, between the
// user's elements and as many bytes: what counts there are the elements.
struct Side {
  void* address;
  int count;
  MPI_Datatype type;
};
void send_to_self(MPI_Comm comm, const Side& from, const Side& to) {
  static constinit std::mutex one_at_a_time;  // the messages of two threads would look alike
  const std::scoped_lock lock(one_at_a_time);
  constexpr int kTag = 0;
  int me = 0;
  real().Comm_rank(comm, &me);
  std::array<MPI_Request, 2> requests{};
  const int received = real().Irecv(to.address, to.count, to.type, me, kTag, comm, &requests[0]);
  const int sent = real().Isend(from.address, from.count, from.type, me, kTag, comm, &requests[1]);
  if (received != MPI_SUCCESS || sent != MPI_SUCCESS ||
      real().Waitall(2, requests.data(), MPI_STATUSES_IGNORE) != MPI_SUCCESS) {
    die("%s cannot copy elements of a datatype with holes to a buffer: cannot continue the collective", kAbiName);
  }
}

}  // namespace

void Blocks::start(Form form, const void* buffer, std::uint32_t peers) {
  form_ = form;
  buffer_ = reinterpret_cast<std::uintptr_t>(buffer);
  peers_ = peers;
  if (!listed()) return;
  counts_.resize(peers);
  offsets_.resize(peers);
  if (form == Form::typed) typed_.resize(peers);
}

void Blocks::sum_up() {
  total_bytes_ = 0;
  bool dense = true;
  if (listed()) {
    for (std::uint32_t i = 0; i < peers_; ++i) {
      total_bytes_ += bytes_of(i);
      dense = dense && (bytes_of(i) == 0 || shape(i).dense_for(counts_[i]));
    }
  } else {
    total_bytes_ = different() * bytes_of(0);
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

void Blocks::reset(client::Client* client) {
  if (staging_ != nullptr && client != nullptr) client->release_staging(staging_);
  staging_ = nullptr;
  handed_ = {};
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
  if (listed()) {
    extents_.resize(peers_);
    for (std::uint32_t i = 0; i < peers_; ++i) {
      const std::uint64_t bytes = bytes_of(i);
      extents_[i] = PairExtent{bytes == 0 ? 0 : offset_of(i) + shape(i).first, bytes};
    }
    handed_ = {at(buffer_, 0), 0, 0, extents_};
  } else if (total_bytes_ != 0) {
    handed_ = {at(buffer_, shape_.first), stride(), bytes_of(0), {}};
  }
}

bool Blocks::use_staging(client::Client& client) {
  std::uint64_t needed = 0;
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

bool Blocks::mapped(const client::Client& client) const {
  const std::optional<OffsetRange> range = handed_.range(peers_);
  if (!range) return false;
  return range->empty() || client.region_of(at(base(), range->low), range->bytes()) != kPrivateRegion;
}

void Blocks::pack(MPI_Comm comm, std::uint32_t skip) {
  for (std::uint32_t peer = 0; peer < different(); ++peer) {
    const std::uint64_t bytes = bytes_of(peer);
    if (peer == skip || bytes == 0) continue;
    std::byte* to = handed(peer);
    const TypeShape& of = shape(peer);
    if (of.dense_for(count_of(peer))) {
      std::memcpy(to, at(buffer_, offset_of(peer) + of.first), bytes);
      continue;
    }
    if (of.size > kPackChunkBytes) {
      const Elements from(at(buffer_, offset_of(peer)), static_cast<int>(count_of(peer)), type(peer));
      const Bytes packed(static_cast<std::int64_t>(bytes));
      send_to_self(comm, {from.address(), from.count(), from.type()}, {to, 1, packed.type()});
      continue;
    }
    in_chunks(count_of(peer), of.size, [&](std::int64_t first, int elements, int chunk_bytes) {
      const Elements from(at(buffer_, offset_of(peer) + first * of.extent), elements, type(peer));
      int position = 0;
      const int code =
          real().Pack(from.address(), from.count(), from.type(), to + first * of.size, chunk_bytes, &position, comm);
      check_packed(code, position, chunk_bytes);
    });
  }
}

void Blocks::unpack(MPI_Comm comm, std::uint32_t skip) {
  for (std::uint32_t peer = 0; peer < different(); ++peer) {
    const std::uint64_t bytes = bytes_of(peer);
    if (peer == skip || bytes == 0) continue;
    std::byte* from = handed(peer);
    const TypeShape& of = shape(peer);
    if (of.dense_for(count_of(peer))) {
      std::memcpy(at(buffer_, offset_of(peer) + of.first), from, bytes);
      continue;
    }
    if (of.size > kPackChunkBytes) {
      const Elements to(at(buffer_, offset_of(peer)), static_cast<int>(count_of(peer)), type(peer));
      const Bytes packed(static_cast<std::int64_t>(bytes));
      send_to_self(comm, {from, 1, packed.type()}, {to.address(), to.count(), to.type()});
      continue;
    }
    in_chunks(count_of(peer), of.size, [&](std::int64_t first, int elements, int chunk_bytes) {
      const Elements to(at(buffer_, offset_of(peer) + first * of.extent), elements, type(peer));
      int position = 0;
      const int code =
          real().Unpack(from + first * of.size, chunk_bytes, &position, to.address(), to.count(), to.type(), comm);
      check_packed(code, position, chunk_bytes);
    });
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
