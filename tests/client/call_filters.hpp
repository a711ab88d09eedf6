// System call filters as a program installs them. They stay in the threads that have them.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrigger::client::test {

// There is one already: it would hide those of a test.
inline bool has_call_filter() {
  return ::prctl(PR_GET_SECCOMP) != 0;
}

// Forbids reads of other processes' memory; `action`: what happens then. With `flags` SECCOMP_FILTER_FLAG_TSYNC all
// threads of this process are filtered, else the calling one.
[[nodiscard]] inline bool forbid_copies(std::uint32_t action, unsigned flags = 0) {
  std::array<sock_filter, 4> lines{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(lines.size()), lines.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

}  // namespace outrigger::client::test
