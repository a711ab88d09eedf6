// Keeps pthread_cancel() from ending the calling thread in the middle of a step, where it would leave a lock held: many
// system calls are cancellation points. The thread ends at the program's next cancellation point.
#pragma once

#include <pthread.h>

namespace outrigger {

class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace outrigger
