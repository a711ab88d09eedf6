// Times of blocking collectives: the MPI's own (by its PMPI names) and those of the library that is preloaded, in turn
// in one run, and their ratio. Results must be equal. Run it on an idle machine:
//
//     outrigger run -n 2 --services 0 -- build/release/bench/openmpi/blocking [BYTES or COLLECTIVE...]
//
// A row of calls is timed as a whole up to 512 bytes, else call by call. The ranks write to what they send before each
// call, outside the time of the longer ones. Reductions add doubles. Without the library all ratios are 1.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "fail.h"
#include "numbers.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 25;
constexpr double kRowUs = 1500;
constexpr double kWarmUs = 150'000;  // trials and learning of orders
constexpr int kMostWarmCalls = 4000;
constexpr int kWholeRowBytes = 512;

// A communicator of all ranks, and one with a ring.
struct Side {
  // `native`: the library leaves its calls to the MPI.
  explicit Side(bool native) {
    MPI_Info info = MPI_INFO_NULL;
    if (native) {
      MPI_Info_create(&info);
      MPI_Info_set(info, "outrigger", "off");
    }
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    const int around = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &around, 0, &ring);
    if (!native) return;
    MPI_Comm_set_info(ring, info);
    MPI_Info_free(&info);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    MPI_Comm_free(&comm);
    MPI_Comm_free(&ring);
  }
  MPI_Comm comm, ring;
};

// Arguments of a call. A rank sends `bytes` to each rank, or to one.
struct Buffers {
  Buffers(int block_bytes, int of_ranks, const Side& side)
      : bytes(block_bytes),
        doubles(block_bytes / static_cast<int>(sizeof(double))),
        ranks(of_ranks),
        comm(side.comm),
        ring(side.ring),
        send(static_cast<std::size_t>(block_bytes) * static_cast<std::size_t>(of_ranks), 1),
        receive(send.size()),
        counts(static_cast<std::size_t>(of_ranks), block_bytes),
        places(static_cast<std::size_t>(of_ranks)) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(i) * block_bytes;
  }

  // As a computation would: a number in each cache line changes.
  void touch(int call) {
    const double value = 1.0 + call % 7;
    for (std::size_t at = 0; at + sizeof value <= send.size(); at += 64) std::memcpy(&send[at], &value, sizeof value);
  }

  int bytes;
  int doubles;
  int ranks;
  MPI_Comm comm, ring;
  std::vector<std::uint8_t> send, receive;
  std::vector<int> counts, places;
};

using Call = void (*)(Buffers&);

struct Collective {
  const char* name;
  Call call;
};

const Collective kCollectives[] = {
    {"barrier", [](Buffers& b) { MPI_Barrier(b.comm); }},
    {"bcast", [](Buffers& b) { MPI_Bcast(b.send.data(), b.bytes, MPI_BYTE, 0, b.comm); }},
    {"gather",
     [](Buffers& b) { MPI_Gather(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.bytes, MPI_BYTE, 0, b.comm); }},
    {"gatherv",
     [](Buffers& b) {
       MPI_Gatherv(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.counts.data(), b.places.data(), MPI_BYTE, 0,
                   b.comm);
     }},
    {"scatter",
     [](Buffers& b) { MPI_Scatter(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.bytes, MPI_BYTE, 0, b.comm); }},
    {"scatterv",
     [](Buffers& b) {
       MPI_Scatterv(b.send.data(), b.counts.data(), b.places.data(), MPI_BYTE, b.receive.data(), b.bytes, MPI_BYTE, 0,
                    b.comm);
     }},
    {"allgather",
     [](Buffers& b) { MPI_Allgather(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.bytes, MPI_BYTE, b.comm); }},
    {"allgatherv",
     [](Buffers& b) {
       MPI_Allgatherv(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.counts.data(), b.places.data(), MPI_BYTE,
                      b.comm);
     }},
    {"alltoall",
     [](Buffers& b) { MPI_Alltoall(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.bytes, MPI_BYTE, b.comm); }},
    {"alltoallv",
     [](Buffers& b) {
       MPI_Alltoallv(b.send.data(), b.counts.data(), b.places.data(), MPI_BYTE, b.receive.data(), b.counts.data(),
                     b.places.data(), MPI_BYTE, b.comm);
     }},
    {"reduce",
     [](Buffers& b) { MPI_Reduce(b.send.data(), b.receive.data(), b.doubles, MPI_DOUBLE, MPI_SUM, 0, b.comm); }},
    {"allreduce",
     [](Buffers& b) { MPI_Allreduce(b.send.data(), b.receive.data(), b.doubles, MPI_DOUBLE, MPI_SUM, b.comm); }},
    {"reduce_scatter_block",
     [](Buffers& b) {
       MPI_Reduce_scatter_block(b.send.data(), b.receive.data(), b.doubles, MPI_DOUBLE, MPI_SUM, b.comm);
     }},
    {"scan", [](Buffers& b) { MPI_Scan(b.send.data(), b.receive.data(), b.doubles, MPI_DOUBLE, MPI_SUM, b.comm); }},
    {"exscan", [](Buffers& b) { MPI_Exscan(b.send.data(), b.receive.data(), b.doubles, MPI_DOUBLE, MPI_SUM, b.comm); }},
    {"neighbor_alltoall",
     [](Buffers& b) {
       MPI_Neighbor_alltoall(b.send.data(), b.bytes, MPI_BYTE, b.receive.data(), b.bytes, MPI_BYTE, b.ring);
     }},
};

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double slowest(double us) {
  MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return us;
}

// Time of a call, in microseconds, of the slowest rank.
double row(Call call, Buffers& buffers, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double us = 0;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) {
    buffers.touch(i);
    if (buffers.bytes <= kWholeRowBytes) {
      call(buffers);
      continue;
    }
    const Clock::time_point begin = Clock::now();
    call(buffers);
    us += us_since(begin);
  }
  if (buffers.bytes <= kWholeRowBytes) us = us_since(start);
  return slowest(us) / calls;
}

void warm(const Collective& collective, Buffers& buffers, double call_us) {
  const int warm_calls = std::clamp(static_cast<int>(kWarmUs / call_us), 60, kMostWarmCalls);
  row(collective.call, buffers, warm_calls);
}

void check_equal(const Collective& collective, Buffers& native, Buffers& ours) {
  for (Buffers* buffers : {&native, &ours}) {
    std::fill(buffers->receive.begin(), buffers->receive.end(), std::uint8_t{0});
    buffers->touch(5);
    collective.call(*buffers);
  }
  if (native.receive != ours.receive || native.send != ours.send) fail("%s: results differ", collective.name);
}

struct Times {
  double native_us, ours_us, ratio;
};

Times measure(const Collective& collective, Buffers& native, Buffers& ours) {
  row(collective.call, native, 3);
  const double call_us = row(collective.call, native, 10);
  const int calls = std::clamp(static_cast<int>(kRowUs / call_us), 8, 5000);
  warm(collective, ours, call_us);
  std::vector<double> native_us, ours_us, ratios;
  for (int round = 0; round < kRounds; ++round) {
    const bool first = round % 2 == 0;
    if (first) native_us.push_back(row(collective.call, native, calls));
    ours_us.push_back(row(collective.call, ours, calls));
    if (!first) native_us.push_back(row(collective.call, native, calls));
    ratios.push_back(ours_us.back() / native_us.back());
  }
  check_equal(collective, native, ours);
  return {median(native_us.data(), kRounds), median(ours_us.data(), kRounds), median(ratios.data(), kRounds)};
}

// The cells to measure: words of the command line, or everything.
struct Cells {
  std::vector<int> sizes;
  std::vector<Collective> collectives;
};

void add(Cells& cells, const char* word) {
  const auto* found = std::find_if(std::begin(kCollectives), std::end(kCollectives),
                                   [&](const Collective& one) { return std::strcmp(one.name, word) == 0; });
  if (found != std::end(kCollectives)) return cells.collectives.push_back(*found);
  cells.sizes.push_back(static_cast<int>(parse_number("BYTES or COLLECTIVE", word, 8, 1 << 26)) / 8 * 8);
}

Cells cells_of(int argc, char** argv) {
  Cells found;
  for (int i = 1; i < argc; ++i) add(found, argv[i]);
  if (found.sizes.empty()) found.sizes = {8, 512, 4096, 32'768, 262'144, 1'048'576, 4'194'304};
  if (found.collectives.empty()) found.collectives.assign(std::begin(kCollectives), std::end(kCollectives));
  return found;
}

void measure_all(const Cells& cells) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Side native_side(true);
  const Side our_side(false);
  std::vector<double> all;
  if (rank == 0) std::printf("%-22s %9s %11s %11s %7s\n", "collective", "bytes", "native, us", "ours, us", "ratio");
  for (const Collective& collective : cells.collectives) {
    for (const int bytes : cells.sizes) {
      if (collective.call == kCollectives[0].call && bytes != cells.sizes.front()) continue;  // a barrier has no bytes
      const int blocks = std::max(ranks, 2);  // or those of two neighbors
      Buffers native(bytes, blocks, native_side);
      Buffers ours(bytes, blocks, our_side);
      const Times times = measure(collective, native, ours);
      all.push_back(times.ratio);
      if (rank != 0) continue;
      std::printf("%-22s %9d %11.3f %11.3f %7.2f\n", collective.name, bytes, times.native_us, times.ours_us,
                  times.ratio);
      std::fflush(stdout);
    }
  }
  if (rank != 0) return;
  const auto above = std::count_if(all.begin(), all.end(), [](double ratio) { return ratio > 1.02; });
  const int count = static_cast<int>(all.size());
  std::printf("median of %d: %.2f; %d over 1.02\n", count, median(all.data(), count), static_cast<int>(above));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  measure_all(cells_of(argc, argv));
  MPI_Finalize();
  return 0;
}
