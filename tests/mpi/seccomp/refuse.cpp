// Runs a program for which the kernel rejects some system calls, as a container's seccomp profile does.
//
//   refuse EPERM|ENOSYS|EACCES CALL,... PROGRAM [ARGUMENT...]
//
// A CALL is a name of the table below. Exits with 77 if filters cannot be installed.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kCannot = 77;

struct Refused {
  const char* name;
  std::uint32_t number;
  std::optional<std::uint32_t> second_argument;  // rejected only with this
};

constexpr Refused kCalls[] = {
#define CALL(name) \
  { #name, SYS_##name, std::nullopt }
    CALL(accept4),
    CALL(close_range),
    CALL(clone3),
    CALL(epoll_create1),
    CALL(eventfd2),
    CALL(fallocate),
    CALL(getrandom),
    CALL(getrusage),
    CALL(get_mempolicy),
    CALL(kcmp),
    CALL(madvise),
    CALL(mbind),
    CALL(membarrier),
    CALL(memfd_create),
    CALL(mlock),
    CALL(mremap),
    CALL(pidfd_getfd),
    CALL(pidfd_open),
    CALL(pidfd_send_signal),
    CALL(prctl),
    CALL(prlimit64),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(ptrace),
    CALL(sched_getaffinity),
    CALL(sched_getattr),
    CALL(sched_setaffinity),
    CALL(sched_setattr),
    CALL(sched_setscheduler),
    CALL(setpgid),
    CALL(setpriority),
    CALL(setrlimit),
    CALL(signalfd4),
    CALL(socketpair),
    CALL(statx),
    CALL(sysinfo),
    CALL(tgkill),
    CALL(timer_create),
    CALL(timerfd_create),
    CALL(unshare),
    CALL(userfaultfd),
    CALL(waitid),
#undef CALL
    {"fcntl-add-seals", SYS_fcntl, F_ADD_SEALS},
    {"fcntl-get-seals", SYS_fcntl, F_GET_SEALS}};

const Refused* found(const std::string& name) {
  for (const Refused& call : kCalls) {
    if (name == call.name) return &call;
  }
  return nullptr;
}

int error_number(const std::string& name) {
  if (name == "EPERM") return EPERM;
  if (name == "ENOSYS") return ENOSYS;
  return name == "EACCES" ? EACCES : 0;
}

void add(std::vector<sock_filter>& filter, const Refused& call, int error) {
  const std::uint32_t refusal = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  constexpr std::uint32_t kNumber = offsetof(seccomp_data, nr);
  constexpr std::uint32_t kSecond = offsetof(seccomp_data, args) + sizeof(std::uint64_t);  // its lower half
  const std::uint8_t skipped = call.second_argument ? 3 : 1;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.number, 0, skipped));
  if (call.second_argument) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *call.second_argument, 0, 1));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, refusal));
}

}  // namespace

int main(int argc, char** argv) {
  const int error = argc > 3 ? error_number(argv[1]) : 0;
  if (error == 0) {
    std::fprintf(stderr, "refuse EPERM|ENOSYS|EACCES CALL,... PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  std::vector<sock_filter> filter;
  std::istringstream names(argv[2]);
  for (std::string name; std::getline(names, name, ',');) {
    const Refused* call = found(name);
    if (call == nullptr) {
      std::fprintf(stderr, "refuse: no call %s in the table\n", name.c_str());
      return 2;
    }
    add(filter, *call, error);
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("refuse: no filter");
    return kCannot;
  }
  execvp(argv[3], argv + 3);
  std::perror(argv[3]);
  return 127;
}
