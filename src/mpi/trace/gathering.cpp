#include "mpi/trace/gathering.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "mpi/job/world_exchange.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// World rank 0 holds one piece of each rank at a time.
constexpr std::uint64_t kAtOnce = std::uint64_t{64} << 20;
constexpr std::uint64_t kLeastPiece = std::uint64_t{4} << 10;
constexpr std::uint64_t kMostPiece = std::uint64_t{1} << 20;

// Written beside its final path until it is complete.
class GatheredFile {
 public:
  explicit GatheredFile(std::string path)
      : path_(std::move(path)),
        part_(path_ + "." + std::to_string(::getpid()) + ".part"),
        fd_(::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (!fd_.valid()) error_ = errno;
  }

  void write(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (error_ == 0 && !bytes.empty()) {
      const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        error_ = errno;
        return;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
  }

  bool finish() {
    if (error_ == 0 && ::rename(part_.c_str(), path_.c_str()) != 0) error_ = errno;
    if (error_ == 0) return true;
    if (fd_.valid()) (void)::unlink(part_.c_str());
    print("the trace could not be written to %s: %s", path_.c_str(), std::strerror(error_));
    return false;
  }

 private:
  std::string path_;
  std::string part_;
  UniqueFd fd_;
  int error_ = 0;
};

std::uint64_t piece_bytes(std::size_t ranks) {
  return std::clamp(kAtOnce / ranks, kLeastPiece, kMostPiece);
}

// Length of piece `number`, out of `bytes` in all.
std::uint64_t bytes_in_piece(std::uint64_t bytes, std::uint64_t number, std::uint64_t piece) {
  const std::uint64_t before = std::min(bytes, number * piece);
  return std::min(bytes - before, piece);
}

// Collective: gathers one piece of each rank, in the order of ranks, on world rank 0, which alone has the counts.
std::vector<std::byte> gather_pieces(std::span<const std::byte> mine, std::span<const int> counts) {
  std::vector<int> offsets(counts.size());
  std::size_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    offsets[i] = static_cast<int>(total);
    total += static_cast<std::size_t>(counts[i]);
  }
  std::vector<std::byte> all(total);
  real().Gatherv(mine.data(), static_cast<int>(mine.size()), constants().byte, all.data(), counts.data(),
                 offsets.data(), constants().byte, 0, constants().comm_world);
  return all;
}

// The bytes of all ranks, piece by piece.
struct Pieces {
  std::vector<std::uint64_t> bytes;  // of each rank
  std::uint64_t piece = 0;

  [[nodiscard]] std::uint64_t rounds() const { return (*std::ranges::max_element(bytes) + piece - 1) / piece; }
  [[nodiscard]] std::span<const std::byte> of(std::span<const std::byte> mine, std::uint64_t round) const {
    const auto before = static_cast<std::size_t>(std::min<std::uint64_t>(mine.size(), round * piece));
    return mine.subspan(before, static_cast<std::size_t>(bytes_in_piece(mine.size(), round, piece)));
  }
  [[nodiscard]] std::vector<int> counts(std::uint64_t round) const {
    std::vector<int> all;
    for (const std::uint64_t each : bytes) all.push_back(static_cast<int>(bytes_in_piece(each, round, piece)));
    return all;
  }
  void write(GatheredFile& file, std::uint64_t round, std::span<const std::byte> gathered) const {
    std::uint64_t part = 0;
    for (const std::uint64_t each : bytes) {
      const auto here = static_cast<std::size_t>(bytes_in_piece(each, round, piece));
      file.write(gathered.first(here), part + round * piece);
      gathered = gathered.subspan(here);
      part += each;
    }
  }
};

}  // namespace

bool gather_parts(std::span<const std::byte> mine, const std::string& path) {
  int rank = 0;
  int size = 0;
  real().Comm_rank(constants().comm_world, &rank);
  real().Comm_size(constants().comm_world, &size);
  const auto ranks = static_cast<std::uint32_t>(size);
  const Pieces pieces{gather_from_all(static_cast<std::uint64_t>(mine.size()), ranks), piece_bytes(ranks)};
  std::optional<GatheredFile> file;
  if (rank == 0) file.emplace(path);
  for (std::uint64_t round = 0; round < pieces.rounds(); ++round) {
    const std::vector<int> counts = file ? pieces.counts(round) : std::vector<int>{};
    const std::vector<std::byte> all = gather_pieces(pieces.of(mine, round), counts);
    if (file) pieces.write(*file, round, all);
  }
  const std::uint8_t written = file && file->finish() ? 1 : 0;
  return gather_from_all(written, ranks)[0] != 0;
}

}  // namespace outrigger::mpi
