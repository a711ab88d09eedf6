#include "client/copies/copy_jobs.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/cross_memory.hpp"

namespace outrigger::client {
namespace {

std::byte* pointer_to(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

CopyResult result_of(int error) {
  switch (error) {
    case 0: return CopyResult::copied;
    case EFAULT: return CopyResult::fault;
    case ESRCH: return CopyResult::gone;
    default: return CopyResult::unreachable;
  }
}

}  // namespace

// In place of glibc's list of robust locks, which this thread does not use. The word is always pending: the kernel
// marks it only if it holds the thread's id.
void CopyJobs::belong_to_copier(CopyQueue& copy_queue) {
  copier_tid_ = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  copier_holds_ = &copy_queue.copier_holds;
  robust_.list.next = &robust_.list;
  robust_.list_op_pending = reinterpret_cast<robust_list*>(copier_holds_);
  static_cast<void>(::syscall(SYS_set_robust_list, &robust_, sizeof(robust_)));
}

bool CopyJobs::take_asked(CopyQueue& copy_queue) {
  CopyTaker taker(copy_queue);
  CopyJob job;
  std::uint32_t number = 0;
  if (!taker.take_asked(job, number)) return false;
  const CopyResult result = carry_out(job);
  // Counted first: who sees the result finds it in the count.
  if (result == CopyResult::copied) bytes_.fetch_add(job.bytes, std::memory_order_relaxed);
  taker.finish(number, result);
  return true;
}

CopyResult CopyJobs::carry_out(const CopyJob& job) {
  if (copier_holds_ == nullptr) return copy(job);
  copier_holds_->store(copier_tid_, std::memory_order_relaxed);
  const CopyResult result = copy(job);
  copier_holds_->store(0, std::memory_order_release);
  return result;
}

int CopyJobs::find_process(const CopyJob& job) {
  Known& known = known_[static_cast<std::uint32_t>(job.other_pid) % known_.size()];
  if (known.pid == job.other_pid && known.address == job.probe_address && known.value == job.probe_value) return 0;
  std::uint64_t word = 0;
  const int error = read_cross_memory(job.other_pid, job.probe_address, std::as_writable_bytes(std::span(&word, 1)));
  if (error == ESRCH) return error;
  if (error != 0 || word != job.probe_value) return EPERM;
  known = Known{job.other_pid, job.probe_address, job.probe_value};
  return 0;
}

CopyResult CopyJobs::copy(const CopyJob& job) {
  std::byte* own = pointer_to(job.own_address);
  const auto kind = static_cast<CopyKind>(job.kind);
  if (kind == CopyKind::within) {
    std::memmove(own, pointer_to(job.other_address), job.bytes);
    return CopyResult::copied;
  }
  if (const int error = find_process(job); error != 0) return result_of(error);
  if (kind == CopyKind::pull) {
    return result_of(read_cross_memory(job.other_pid, job.other_address, std::span(own, job.bytes)));
  }
  return result_of(write_cross_memory(job.other_pid, job.other_address, std::span<const std::byte>(own, job.bytes)));
}

}  // namespace outrigger::client
