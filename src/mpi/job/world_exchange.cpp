#include "mpi/job/world_exchange.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <limits>

#include "mpi/job/patience.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr int kExchangeTag = 4098;  // valid in every MPI

void finish(MPI_Request request) {
  wait_for([&request] {
    int ended = 0;
    real().Test(&request, &ended, MPI_STATUS_IGNORE);
    return ended != 0;
  });
}

int count_of(std::span<const std::byte> bytes) {
  return static_cast<int>(bytes.size());
}

void send(std::span<const std::byte> bytes, std::uint32_t to) {
  MPI_Request request{};
  real().Isend(bytes.data(), count_of(bytes), constants().byte, static_cast<int>(to), kExchangeTag,
               constants().comm_world, &request);
  finish(request);
}

void receive(std::span<std::byte> bytes, std::uint32_t from) {
  MPI_Request request{};
  real().Irecv(bytes.data(), count_of(bytes), constants().byte, static_cast<int>(from), kExchangeTag,
               constants().comm_world, &request);
  finish(request);
}

// Bytes with their length in front.
struct Parcel {
  static constexpr std::uint64_t kTooMuch = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kLimit = std::numeric_limits<int>::max();

  std::uint64_t length = 0;  // kTooMuch: no bytes
  std::vector<std::byte> bytes;

  void refuse() {
    length = kTooMuch;
    bytes.clear();
  }

  void append(const Parcel& other) {
    if (length == kTooMuch || other.length == kTooMuch || length + other.length > kLimit) return refuse();
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
    length = bytes.size();
  }

  void send_to(std::uint32_t rank) const {
    send(std::as_bytes(std::span(&length, 1)), rank);
    if (!bytes.empty()) send(bytes, rank);
  }

  static Parcel from(std::uint32_t rank) {
    Parcel parcel;
    receive(std::as_writable_bytes(std::span(&parcel.length, 1)), rank);
    if (parcel.length == kTooMuch) return parcel;
    parcel.bytes.resize(parcel.length);
    if (parcel.length != 0) receive(parcel.bytes, rank);
    return parcel;
  }
};

}  // namespace

void gather_from_all(std::span<const std::byte> mine, std::span<std::byte> all) {
  MPI_Request request{};
  real().Iallgather(mine.data(), count_of(mine), constants().byte, all.data(), count_of(mine), constants().byte,
                    constants().comm_world, &request);
  finish(request);
}

std::string text_from(std::uint32_t root, const std::string& text) {
  std::array<char, 256> letters{};
  std::snprintf(letters.data(), letters.size(), "%s", text.c_str());
  MPI_Request request{};
  real().Ibcast(letters.data(), static_cast<int>(letters.size()), constants().byte, static_cast<int>(root),
                constants().comm_world, &request);
  finish(request);
  letters.back() = '\0';
  return letters.data();
}

// Up and down a binomial tree. A place gathers its own bytes and those of the places right behind it, so the order
// holds.
std::vector<std::byte> gather_among(std::span<const std::uint32_t> ranks, std::uint32_t me,
                                    std::span<const std::byte> mine) {
  const auto size = static_cast<std::uint32_t>(ranks.size());
  Parcel parcel{mine.size(), {mine.begin(), mine.end()}};
  if (mine.empty() || mine.size() > Parcel::kLimit) parcel.refuse();
  const std::uint32_t parent = me & (me - 1);
  const std::uint32_t bits_below = me == 0 ? std::bit_ceil(size) : me ^ parent;
  for (std::uint32_t bit = 1; bit < bits_below && (me | bit) < size; bit <<= 1U) {
    parcel.append(Parcel::from(ranks[me | bit]));
  }
  if (me != 0) {
    parcel.send_to(ranks[parent]);
    parcel = Parcel::from(ranks[parent]);
  }
  for (std::uint32_t bit = bits_below >> 1U; bit > 0; bit >>= 1U) {
    if ((me | bit) < size) parcel.send_to(ranks[me | bit]);
  }
  return std::move(parcel.bytes);
}

}  // namespace outrigger::mpi
