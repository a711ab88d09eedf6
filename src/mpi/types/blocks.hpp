// One side of a collective: the blocks in a user's buffer. The service process gets either the buffer itself, or
// staging memory that the blocks are packed into (or unpacked from).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "client/operations/operation_request.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/types/neighbor_side.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::client {
class RankEndpoint;
}

namespace outrigger::mpi {

class Blocks {
 public:
  // Writes the layout for the service process to `handed`, which must outlive this.
  explicit Blocks(client::BufferLayout& handed) : handed_(handed) {}
  // Peer i's block: `count` elements at i * count elements from the buffer.
  void set_regular(const void* buffer, std::int64_t count, MPI_Datatype type, const TypeShape& shape,
                   std::uint32_t peers) {
    start(Form::regular, buffer, peers);
    set_equal(count, type, shape);
    stride_ = count * shape.extent;
  }
  // Peer i's block: counts[i] elements at displacements[i] extents from the buffer. Both are copied.
  template <class Count, class Displacement>
  void set_irregular(const void* buffer, const Count* counts, const Displacement* displacements, MPI_Datatype type,
                     const TypeShape& shape, std::uint32_t peers);
  // The same block for all peers: `count` elements at the buffer. `neighbors`: the peers, each once.
  void set_shared(const void* buffer, std::int64_t count, MPI_Datatype type, const TypeShape& shape,
                  std::uint32_t peers, const NeighborSide* neighbors = nullptr);
  // Peer i's block: counts[i] elements of types[i] at displacements[i] bytes from the buffer. All is copied, the types'
  // handles too (see keep_type).
  template <class Count, class Displacement>
  void set_typed(const Job& job, const void* buffer, const Count* counts, const Displacement* displacements,
                 const MPI_Datatype* types, std::uint32_t peers);
  // Neighbor collectives: `element` describes block i, for the side's place i. Several blocks of a neighbor are handed
  // over as one, and then never in the buffer itself. The side must outlive this.
  struct Element {
    std::int64_t count = 0;
    std::int64_t offset = 0;  // bytes from the buffer
    MPI_Datatype type{};
    TypeShape shape;
  };
  template <class ElementOf>
  void set_neighbors(const NeighborSide& side, const void* buffer, const ElementOf& element);
  // Forgets buffers and type references; keeps the memory of the lists.
  void reset(client::RankEndpoint* client) {
    buffer_handed_ = false;
    if (staging_ != nullptr || !lasting_.empty()) [[unlikely]]
      give_back(client);
  }
  // Gives back staging memory only: the blocks will be used again.
  void end_run(client::RankEndpoint& client);

  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t peer) const {
    return static_cast<std::uint64_t>(count_of(peer) * shape(peer).size);
  }
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] std::uint64_t largest_bytes() const { return largest_bytes_; }
  // Blocks need no packing: each is one dense piece of memory.
  [[nodiscard]] bool dense() const { return dense_; }
  // Described by numbers, the buffer and a type that lasts.
  [[nodiscard]] bool plain() const { return !by_extents() && shape_.predefined; }

  // Chooses the buffer itself, which is described once. Only for dense blocks.
  void use_buffer() {
    if (std::exchange(buffer_handed_, true)) return;
    by_extents() ? list_in_buffer() : hand_over_alike(address_of(buffer_, shape_.first), stride_);
  }
  // Chooses staging memory of the blocks' size. False: there is none.
  [[nodiscard]] bool use_staging(client::RankEndpoint& client);
  [[nodiscard]] bool staged() const { return staging_ != nullptr; }
  // The caller gives the staging memory back. It stays in use until reset().
  [[nodiscard]] void* hand_over_staging() {
    staging_handed_over_ = true;
    return staging_;
  }

  // Between the user's buffer and staging; peer `skip` (or none: peers()) is left out.
  void copy(Packing direction, MPI_Comm comm, std::uint32_t skip);

  // The layout for the service process. Valid until reset().
  [[nodiscard]] const client::BufferLayout& layout() const { return handed_; }
  // Address of peer's block in the buffer or in staging.
  [[nodiscard]] std::byte* handed(std::uint32_t peer) const {
    const bool apart = neighbors_ != nullptr;  // the layout is by neighbor
    return address_of(handed_.base,
                      apart ? extents_[peer].offset_bytes : static_cast<std::int64_t>(handed_.offset_bytes(peer)));
  }
  // The number of blocks. In neighbor collectives a neighbor may have several.
  [[nodiscard]] std::uint32_t peers() const { return peers_; }
  // The neighbors of a neighbor collective, whose layout is by their ranks; nullptr for other collectives.
  [[nodiscard]] const NeighborSide* neighbors() const { return neighbors_; }

  // The types must outlive the call that started the operation.
  void keep_type();

 private:
  enum class Form : std::uint8_t { regular, shared, irregular, typed };
  struct Typed {
    MPI_Datatype type{};
    TypeShape shape;
  };

  [[nodiscard]] bool listed() const { return form_ == Form::irregular || form_ == Form::typed; }
  [[nodiscard]] std::int64_t count_of(std::uint32_t peer) const { return listed() ? counts_[peer] : count_; }
  [[nodiscard]] std::int64_t offset_of(std::uint32_t peer) const {
    return listed() ? offsets_[peer] : static_cast<std::int64_t>(peer) * stride_;
  }
  [[nodiscard]] const TypeShape& shape(std::uint32_t peer) const {
    return form_ == Form::typed ? typed_[peer].shape : shape_;
  }
  void start(Form form, const void* buffer, std::uint32_t peers) {
    form_ = form;
    buffer_ = buffer;
    buffer_handed_ = false;
    peers_ = different_ = peers;
    neighbors_ = nullptr;
    if (listed()) make_lists();
  }
  void make_lists();
  // All peers' blocks alike.
  void set_equal(std::int64_t count, MPI_Datatype type, const TypeShape& shape) {
    type_ = type;
    shape_ = shape;
    count_ = count;
    const auto bytes = static_cast<std::uint64_t>(count * shape.size);
    total_bytes_ = different_ * bytes;
    largest_bytes_ = peers_ == 0 ? 0 : bytes;
    dense_ = total_bytes_ == 0 || shape.dense_for(count);
  }
  // Listed ones.
  void sum_up();
  // A neighbor has several blocks, which are handed over as one.
  [[nodiscard]] bool lies_apart() const { return neighbors_ != nullptr && neighbors_->repeats(); }
  // The layout has an extent for each block.
  [[nodiscard]] bool by_extents() const { return listed() || neighbors_ != nullptr; }
  void list_in_buffer();
  void hand_over(const void* base);
  void hand_over_alike(const void* base, std::int64_t stride) {
    handed_ = total_bytes_ == 0 ? client::BufferLayout{} : client::BufferLayout{base, stride, bytes_of(0), {}};
  }
  void give_back(client::RankEndpoint* client);

  const void* buffer_ = nullptr;
  MPI_Datatype type_{};
  TypeShape shape_;
  std::uint32_t peers_ = 0;
  const NeighborSide* neighbors_ = nullptr;
  Form form_ = Form::regular;
  bool dense_ = false;
  bool buffer_handed_ = false;  // `handed_` is in the buffer
  std::int64_t count_ = 0;
  std::int64_t stride_ = 0;      // regular: bytes from one block to the next in the buffer
  std::uint32_t different_ = 0;  // the first peers whose blocks, together, are all there are
  std::uint64_t total_bytes_ = 0;
  std::uint64_t largest_bytes_ = 0;
  std::vector<std::int64_t> counts_;   // listed: elements per peer
  std::vector<std::int64_t> offsets_;  // listed: bytes from the buffer
  std::vector<Typed> typed_;           // types per peer
  std::vector<MPI_Datatype> lasting_;  // in the place of the program's, and to be freed
  void* staging_ = nullptr;
  bool staging_handed_over_ = false;
  client::BufferLayout& handed_;     // in the buffer or staging
  std::vector<PairExtent> extents_;  // listed, or of neighbors: its
  std::vector<PairExtent> joined_;   // the same by neighbor, where one has several
};

template <class ElementOf>
void Blocks::set_neighbors(const NeighborSide& side, const void* buffer, const ElementOf& element) {
  const auto blocks = static_cast<std::uint32_t>(side.places.size());
  start(Form::typed, buffer, blocks);
  neighbors_ = &side;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const Element here = element(side.places[i]);
    counts_[i] = here.count;
    offsets_[i] = here.offset;
    typed_[i] = Typed{here.type, here.shape};
  }
  sum_up();
}

// The rank in the group that peer's block is for, or from.
[[nodiscard]] inline std::uint32_t rank_of(const Blocks& blocks, std::uint32_t peer) {
  return blocks.neighbors() == nullptr ? peer : blocks.neighbors()->rank_of(peer);
}

// The blocks for a rank of the group, or from it, as one piece.
struct HandedPair {
  std::uint32_t peer = 0;  // the first of its blocks
  std::uint64_t bytes = 0;
};
[[nodiscard]] HandedPair pair_with(const Blocks& blocks, std::uint32_t rank);

template <class Count, class Displacement>
void Blocks::set_irregular(const void* buffer, const Count* counts, const Displacement* displacements,
                           MPI_Datatype type, const TypeShape& shape, std::uint32_t peers) {
  start(Form::irregular, buffer, peers);
  type_ = type;
  shape_ = shape;
  for (std::uint32_t i = 0; i < peers; ++i) {
    counts_[i] = static_cast<std::int64_t>(counts[i]);
    offsets_[i] = static_cast<std::int64_t>(displacements[i]) * shape.extent;
  }
  sum_up();
}

template <class Count, class Displacement>
void Blocks::set_typed(const Job& job, const void* buffer, const Count* counts, const Displacement* displacements,
                       const MPI_Datatype* types, std::uint32_t peers) {
  start(Form::typed, buffer, peers);
  for (std::uint32_t i = 0; i < peers; ++i) {
    counts_[i] = static_cast<std::int64_t>(counts[i]);
    offsets_[i] = static_cast<std::int64_t>(displacements[i]);
    // The type of an empty block may be invalid.
    typed_[i] = counts_[i] == 0 ? Typed{} : Typed{types[i], shape_of(job, types[i])};
  }
  sum_up();
}

// The same elements, also after the program has freed the type. The caller frees it. A duplicate would run the
// program's callbacks for attributes.
[[nodiscard]] MPI_Datatype lasting_type(MPI_Datatype type);

}  // namespace outrigger::mpi
