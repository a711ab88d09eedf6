#include "mpi/types/packing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "mpi/memory/accelerators.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

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

int pack_or_unpack(Packing direction, std::byte* elements, int count, MPI_Datatype type, std::byte* row, int bytes,
                   int& position, MPI_Comm comm) {
  return direction == Packing::pack ? real().Pack(elements, count, type, row, bytes, &position, comm)
                                    : real().Unpack(row, bytes, &position, elements, count, type, comm);
}

// As bytes: the type may have been freed.
void copy_dense(Packing direction, std::byte* dense, std::byte* row, std::int64_t bytes, MPI_Comm comm) {
  if (!accelerator_loaded()) {
    const bool packs = direction == Packing::pack;
    std::memcpy(packs ? row : dense, packs ? dense : row, static_cast<std::size_t>(bytes));
    return;
  }
  in_chunks(bytes, 1, [&](std::int64_t first, int count, int chunk) {
    int position = 0;
    const int code =
        pack_or_unpack(direction, dense + first, count, constants().byte, row + first, chunk, position, comm);
    check_packed(code, position, chunk);
  });
}

}  // namespace

void copy_packed(Packing direction, const TypedElements& all, std::byte* packed, MPI_Comm comm) {
  const bool packs = direction == Packing::pack;
  const TypeShape& shape = all.shape;
  if (shape.dense_for(all.count)) {
    return copy_dense(direction, address_of(all.address, shape.first), packed, all.bytes(), comm);
  }
  if (shape.size > kPackChunkBytes) {
    const Elements elements(all.address, static_cast<int>(all.count), all.type);
    const Bytes bytes(all.bytes());
    const Side spread{elements.address(), elements.count(), elements.type()};
    const Side row{packed, 1, bytes.type()};
    return packs ? send_to_self(comm, spread, row) : send_to_self(comm, row, spread);
  }
  in_chunks(all.count, shape.size, [&](std::int64_t first, int count, int bytes) {
    const Elements elements(address_of(all.address, first * shape.extent), count, all.type);
    std::byte* const row = packed + first * shape.size;
    int position = 0;
    const int code =
        pack_or_unpack(direction, elements.address(), elements.count(), elements.type(), row, bytes, position, comm);
    check_packed(code, position, bytes);
  });
}

}  // namespace outrigger::mpi
