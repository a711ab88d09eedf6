#include "mpi/blocks.hpp"

#include <algorithm>
#include <cstring>

#include "mpi/message.hpp"
#include "mpi/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::uint64_t kStagingAlignment = 16;
constexpr std::int64_t kPackChunkBytes = 1LL << 30;  // PMPI_Pack counts bytes in int

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
  if (element_bytes > kPackChunkBytes) {
    die("a datatype with holes and more than %lld bytes in one element cannot be packed; split it",
        static_cast<long long>(kPackChunkBytes));
  }
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

}  // namespace

void Blocks::sum_up() {
  total_bytes_ = 0;
  std::int64_t longest = count_;
  if (irregular_) {
    longest = 0;
    for (std::uint32_t i = 0; i < peers_; ++i) {
      longest = std::max(longest, counts_[i]);
      total_bytes_ += bytes_of(i);
    }
  } else {
    total_bytes_ = peers_ * bytes_of(0);
  }
  dense_ = total_bytes_ == 0 || shape_.dense_for(longest);
}

void Blocks::set_regular(const void* buffer, std::int64_t count, MPI_Datatype type, const TypeShape& shape,
                         std::uint32_t peers) {
  buffer_ = reinterpret_cast<std::uintptr_t>(buffer);
  type_ = type;
  shape_ = shape;
  peers_ = peers;
  irregular_ = false;
  count_ = count;
  sum_up();
}

void Blocks::reset(client::Client* client) {
  if (staging_ != nullptr && client != nullptr) client->release_staging(staging_);
  staging_ = nullptr;
  if (type_kept_) real().Type_free(&type_);
  type_kept_ = false;
}

bool Blocks::mapped(const client::Client& client) const {
  std::int64_t begin = INT64_MAX;
  std::int64_t end = INT64_MIN;
  const auto include = [&](std::uint32_t peer) {
    const std::uint64_t bytes = bytes_of(peer);
    if (bytes == 0) return;
    begin = std::min(begin, offset_of(peer));
    end = std::max(end, offset_of(peer) + static_cast<std::int64_t>(bytes));
  };
  if (irregular_) {
    for (std::uint32_t peer = 0; peer < peers_; ++peer) include(peer);
  } else {
    include(0);
    include(peers_ - 1);
  }
  if (end <= begin) return true;  // no bytes at all
  return client.region_of(at(buffer_, begin + shape_.first), static_cast<std::uint64_t>(end - begin)) != kPrivateRegion;
}

void Blocks::use_buffer() {
  if (!irregular_) return;
  extents_.resize(peers_);
  for (std::uint32_t i = 0; i < peers_; ++i) {
    const std::uint64_t bytes = bytes_of(i);
    extents_[i] = PairExtent{bytes == 0 ? 0 : offset_of(i) + shape_.first, bytes};
  }
}

bool Blocks::use_staging(client::Client& client) {
  std::uint64_t needed = 0;
  if (irregular_) {
    extents_.resize(peers_);
    for (std::uint32_t i = 0; i < peers_; ++i) {
      extents_[i] = PairExtent{static_cast<std::int64_t>(needed), bytes_of(i)};
      needed += aligned(bytes_of(i));
    }
  } else {
    staging_stride_ = aligned(bytes_of(0));
    needed = staging_stride_ * peers_;
  }
  staging_ = static_cast<std::byte*>(client.allocate_staging(std::max<std::uint64_t>(needed, kStagingAlignment)));
  return staging_ != nullptr;
}

void Blocks::pack(MPI_Comm comm, std::uint32_t skip) {
  for (std::uint32_t peer = 0; peer < peers_; ++peer) {
    const std::uint64_t bytes = bytes_of(peer);
    if (peer == skip || bytes == 0) continue;
    std::byte* to = handed(peer);
    if (dense_) {
      std::memcpy(to, at(buffer_, offset_of(peer) + shape_.first), bytes);
      continue;
    }
    in_chunks(count_of(peer), shape_.size, [&](std::int64_t first, int elements, int chunk_bytes) {
      const Elements from(at(buffer_, offset_of(peer) + first * shape_.extent), elements, type_);
      int position = 0;
      const int code = real().Pack(from.address(), from.count(), from.type(), to + first * shape_.size, chunk_bytes,
                                   &position, comm);
      check_packed(code, position, chunk_bytes);
    });
  }
}

void Blocks::unpack(MPI_Comm comm, std::uint32_t skip) {
  for (std::uint32_t peer = 0; peer < peers_; ++peer) {
    const std::uint64_t bytes = bytes_of(peer);
    if (peer == skip || bytes == 0) continue;
    const std::byte* from = handed(peer);
    if (dense_) {
      std::memcpy(at(buffer_, offset_of(peer) + shape_.first), from, bytes);
      continue;
    }
    in_chunks(count_of(peer), shape_.size, [&](std::int64_t first, int elements, int chunk_bytes) {
      const Elements to(at(buffer_, offset_of(peer) + first * shape_.extent), elements, type_);
      int position = 0;
      const int code =
          real().Unpack(from + first * shape_.size, chunk_bytes, &position, to.address(), to.count(), to.type(), comm);
      check_packed(code, position, chunk_bytes);
    });
  }
}

client::BufferLayout Blocks::layout() const {
  client::BufferLayout layout;
  if (irregular_) {
    layout.base = staged() ? static_cast<const void*>(staging_) : at(buffer_, 0);
    layout.extents = extents_;
    return layout;
  }
  if (total_bytes_ == 0) return layout;
  layout.base = handed(0);
  layout.block_bytes = bytes_of(0);
  layout.stride_bytes = staged() ? static_cast<std::int64_t>(staging_stride_) : count_ * shape_.extent;
  return layout;
}

std::byte* Blocks::handed(std::uint32_t peer) const {
  if (!staged()) return at(buffer_, offset_of(peer) + shape_.first);
  return staging_ + (irregular_ ? static_cast<std::uint64_t>(extents_[peer].offset_bytes) : staging_stride_ * peer);
}

void Blocks::keep_type() {
  if (shape_.predefined || type_kept_) return;
  if (real().Type_dup(type_, &type_) != MPI_SUCCESS) die("%s cannot duplicate a datatype", kAbiName);
  type_kept_ = true;
}

}  // namespace outrigger::mpi
