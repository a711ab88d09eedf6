// One element of a datatype with a hole, with more bytes than MPI counts at once: every byte arrives, and none in the
// hole.
//
//   large_type MIB   of data in the element
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kHoleBytes = 4096 + 24;
constexpr unsigned char kUntouched = 0xA5;

// Differs at all offsets that are likely to be confused.
unsigned char pattern(std::size_t index) {
  return static_cast<unsigned char>(index ^ (index >> 8) ^ (index >> 17) ^ (index >> 31));
}

struct Element {
  std::size_t block_bytes;
  [[nodiscard]] std::size_t bytes() const { return 2 * block_bytes + kHoleBytes; }
  [[nodiscard]] bool in_hole(std::size_t index) const {
    return index >= block_bytes && index < block_bytes + kHoleBytes;
  }
};

MPI_Datatype type_of(const Element& element) {
  const int length = static_cast<int>(element.block_bytes);
  const int lengths[2] = {length, length};
  const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(element.block_bytes + kHoleBytes)};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed(2, lengths, offsets, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

std::size_t wrong_bytes(const std::vector<unsigned char>& buffer, const Element& element) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    wrong += buffer[i] != (element.in_hole(i) ? kUntouched : pattern(i)) ? 1 : 0;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const Element element{(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1) * (std::size_t{1} << 20) / 2};
  std::vector<unsigned char> buffer(element.bytes(), kUntouched);
  if (rank == 0) {
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      if (!element.in_hole(i)) buffer[i] = pattern(i);
    }
  }
  MPI_Datatype type = type_of(element);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(buffer.data(), 1, type, 0, MPI_COMM_WORLD, &request);
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const std::size_t wrong = wrong_bytes(buffer, element);
  if (wrong != 0) std::fprintf(stderr, "large_type: rank %d has %zu wrong bytes\n", rank, wrong);
  int bad = wrong != 0 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0 && bad == 0) std::printf("large_type: all bytes right\n");
  MPI_Finalize();
  return bad;
}
