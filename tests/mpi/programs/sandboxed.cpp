// Installs a system call filter in the middle, as a sandbox does, which kills a process that reads another's memory,
// makes memory to share or asks for another process. Blocks are as before. Exits with 77 if there are no filters.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

constexpr int kCannot = 77;
constexpr int kRounds = 40;
constexpr int kBytes = 128 * 1024;
constexpr int kKilledFor[] = {SYS_process_vm_readv, SYS_process_vm_writev, SYS_memfd_create, SYS_pidfd_open};

bool install_filter() {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : kKilledFor) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Every byte names its sender, its receiver and the round.
char content(int from, int to, int round) {
  return static_cast<char>(from * 31 + to * 7 + round);
}

bool exchange(MPI_Comm comm, int bytes, int rounds) {
  int me = 0;
  int ranks = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  const auto total = static_cast<std::size_t>(bytes) * static_cast<std::size_t>(ranks);
  std::vector<char> sent(total);
  std::vector<char> received(total);
  bool right = true;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < total; ++i) sent[i] = content(me, static_cast<int>(i) / bytes, round);
    MPI_Alltoall(sent.data(), bytes, MPI_CHAR, received.data(), bytes, MPI_CHAR, comm);
    for (std::size_t i = 0; i < total; ++i)
      right = right && received[i] == content(static_cast<int>(i) / bytes, me, round);
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm later = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &later);
  bool right = exchange(MPI_COMM_WORLD, kBytes, kRounds);
  if (!install_filter()) {
    MPI_Finalize();
    return kCannot;
  }
  right = exchange(MPI_COMM_WORLD, kBytes, kRounds) && right;
  right = exchange(later, 8, kRounds) && right;
  MPI_Comm_free(&later);
  std::printf("%s\n", right ? "all right" : "WRONG");
  MPI_Finalize();
  return right ? 0 : 1;
}
