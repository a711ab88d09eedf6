// Tests that posts leak nothing: memory and descriptors of the ranks, of the service processes and of the keeper after
// many operations equal those after the first thousand.
//
//   post_many [OPERATIONS [DAEMON]]     default 100000; DAEMON is the path of outriggerd: its processes are checked,
//   too

#include <dirent.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int window = 16;
constexpr int warm_up = 1000;
constexpr long resident_noise_kib = 2048;
constexpr long virtual_noise_kib = 8192;

struct Usage {
  long resident_kib = 0;
  long virtual_kib = 0;
  long descriptors = 0;
};

long status_field(const std::string& text, const char* name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::atol(text.c_str() + at + std::strlen(name));
}

Usage usage_of(const std::string& process) {
  Usage usage;
  char text[8192] = {};
  if (FILE* file = std::fopen(("/proc/" + process + "/status").c_str(), "r")) {
    const std::size_t bytes = std::fread(text, 1, sizeof text - 1, file);
    text[bytes] = 0;
    std::fclose(file);
  }
  usage.resident_kib = status_field(text, "VmRSS:");
  usage.virtual_kib = status_field(text, "VmSize:");
  if (DIR* directory = opendir(("/proc/" + process + "/fd").c_str())) {
    while (readdir(directory) != nullptr) ++usage.descriptors;
    closedir(directory);
  }
  return usage;
}

// All processes that run the given executable.
std::vector<std::string> processes_of(const char* executable) {
  std::vector<std::string> found;
  char wanted[PATH_MAX];
  DIR* directory = executable != nullptr && realpath(executable, wanted) != nullptr ? opendir("/proc") : nullptr;
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    char running[PATH_MAX];
    const std::string link = std::string("/proc/") + entry->d_name + "/exe";
    const ssize_t bytes = readlink(link.c_str(), running, sizeof running);
    if (bytes <= 0) continue;
    if (std::string(running, static_cast<std::size_t>(bytes)) == wanted) found.push_back(entry->d_name);
  }
  closedir(directory);
  return found;
}

std::map<std::string, Usage> look(int rank, const char* daemon) {
  std::map<std::string, Usage> seen;
  seen["rank " + std::to_string(rank)] = usage_of("self");
  if (rank == 0) {
    for (const std::string& process : processes_of(daemon)) seen["outriggerd " + process] = usage_of(process);
  }
  return seen;
}

bool compare(const std::map<std::string, Usage>& before, const std::map<std::string, Usage>& after) {
  bool good = true;
  for (const auto& [name, now] : after) {
    const auto old = before.find(name);
    if (old == before.end()) {
      std::printf("post_many: %s was not there before\n", name.c_str());
      good = false;
      continue;
    }
    const Usage& then = old->second;
    std::printf("post_many: %s: resident %ld -> %ld KiB, virtual %ld -> %ld KiB, descriptors %ld -> %ld\n",
                name.c_str(), then.resident_kib, now.resident_kib, then.virtual_kib, now.virtual_kib, then.descriptors,
                now.descriptors);
    if (now.resident_kib > then.resident_kib + resident_noise_kib) good = false;
    if (now.virtual_kib > then.virtual_kib + virtual_noise_kib) good = false;
    if (now.descriptors > then.descriptors) good = false;
  }
  return good;
}

// The buffers of one place in the window, reused.
struct Slot {
  std::vector<int> send, receive;
  int* from_mpi = nullptr;
};

class Poster {
 public:
  Poster() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_dup(MPI_COMM_WORLD, &communicators_[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_, &communicators_[1]);
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair_with_gap_);
    MPI_Type_commit(&pair_with_gap_);
    const std::size_t elements = static_cast<std::size_t>(16 * size_);
    for (Slot& slot : slots_) {
      slot.send.assign(elements, rank_);
      slot.receive.assign(elements, -1);
      MPI_Alloc_mem(static_cast<MPI_Aint>(elements * sizeof(int)), MPI_INFO_NULL, &slot.from_mpi);
      for (std::size_t i = 0; i < elements; ++i) slot.from_mpi[i] = rank_;
    }
    counts_.assign(static_cast<std::size_t>(size_), 2);
    for (int i = 0; i < size_; ++i) displacements_.push_back(3 * i);
  }
  ~Poster() {
    for (Slot& slot : slots_) MPI_Free_mem(slot.from_mpi);
    MPI_Type_free(&pair_with_gap_);
    for (MPI_Comm& communicator : communicators_) MPI_Comm_free(&communicator);
  }
  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  void run(int operations) {
    for (int posted = 0; posted < operations;) {
      int count = 0;
      for (; count < window && posted < operations; ++count) post(posted++, slots_[count], &requests_[count]);
      if (posted % 3 == 0) {
        MPI_Waitall(count, requests_, MPI_STATUSES_IGNORE);
        continue;
      }
      for (int done = 0; done == 0;) {
        MPI_Testall(count, requests_, &done, MPI_STATUSES_IGNORE);
        if (done == 0) sched_yield();
      }
    }
  }

 private:
  void post(int number, Slot& slot, MPI_Request* request) {
    const MPI_Comm communicator = communicators_[number / 5 % 2];
    switch (number % 5) {
      case 0:
        MPI_Ialltoall(slot.send.data(), 1, MPI_INT, slot.receive.data(), 1, MPI_INT, communicator, request);
        break;
      case 1: MPI_Ialltoall(slot.from_mpi, 8, MPI_INT, slot.receive.data(), 8, MPI_INT, communicator, request); break;
      case 2:
        MPI_Ialltoall(slot.send.data(), 2, pair_with_gap_, slot.receive.data(), 4, MPI_INT, communicator, request);
        break;
      case 3:
        MPI_Ialltoallv(slot.send.data(), counts_.data(), displacements_.data(), MPI_INT, slot.receive.data(),
                       counts_.data(), displacements_.data(), MPI_INT, communicator, request);
        break;
      default:
        MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, slot.receive.data(), 2, MPI_INT, communicator, request);
    }
  }

  int rank_ = 0;
  int size_ = 0;
  MPI_Comm communicators_[2];
  MPI_Datatype pair_with_gap_;
  Slot slots_[window];
  std::vector<int> counts_, displacements_;
  MPI_Request requests_[window];
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int operations = argc > 1 ? std::atoi(argv[1]) : 100'000;
  const char* daemon = argc > 2 ? argv[2] : nullptr;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int good = 0;
  {
    Poster poster;
    poster.run(warm_up);
    MPI_Barrier(MPI_COMM_WORLD);
    const std::map<std::string, Usage> before = look(rank, daemon);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    poster.run(operations - warm_up);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::printf("post_many: %d operations, %.2f s\n", operations, MPI_Wtime() - start);
    good = compare(before, look(rank, daemon)) ? 1 : 0;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (good == 0) std::printf("post_many: rank %d: SOMETHING GREW\n", rank);
  MPI_Finalize();
  return good != 0 ? 0 : 1;
}
