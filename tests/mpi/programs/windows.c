// Knows when it uses the data of its collectives, and prints its own times (test_windows.py). Each way is one kind of
// use, or one that a guard of memory must not disturb. Wrong bytes, a failed system call or a signal end the program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { kPages = 16, kPage = 4096, kBytes = kPages * kPage, kRounds = 8 };
static int rank, size;
static unsigned char* block;  // of malloc
static unsigned char* other;

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: not %s (%d)\n", __FILE__, __LINE__, #condition, errno); \
      MPI_Abort(MPI_COMM_WORLD, 3);                                                   \
    }                                                                                 \
  } while (0)

static unsigned char value_of(int round) {
  return (unsigned char)(round * 7 + 1);
}

// Everyone has a new block afterwards. Rank 0 has sent it.
static void receive(int round) {
  if (rank == 0) memset(block, value_of(round), kBytes);
  MPI_Bcast(block, kBytes, MPI_BYTE, 0, MPI_COMM_WORLD);  // place: receives
}
static void check_block(int round) {
  for (int i = 0; i < kBytes; ++i) CHECK(block[i] == value_of(round));
}
static double compute(double seconds) {
  const double begin = MPI_Wtime();
  double sum = 0;
  while (MPI_Wtime() - begin < seconds) sum += 1;
  return sum;
}

static void use(int round) {
  check_block(round);
}
static void compute_first(int round) {
  compute(0.005);
  check_block(round);
}
static void no_use(int round) {
  (void)round;
}

// All kinds of system calls on guarded memory.
static void system_calls(int round) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  receive(round);
  CHECK(write(ends[1], block + kPage, 2 * kPage) == 2 * kPage);
  CHECK(read(ends[0], other, 2 * kPage) == 2 * kPage);
  CHECK(memcmp(other, block + kPage, 2 * kPage) == 0);
  receive(round);
  CHECK(write(ends[1], other, 100) == 100);  // not guarded
  CHECK(read(ends[0], block + 3 * kPage, 100) == 100);
  receive(round);
  struct iovec pieces[2] = {{block + 2 * kPage, 64}, {block + 5 * kPage, 64}};
  CHECK(writev(ends[1], pieces, 2) == 128);
  CHECK(read(ends[0], other, 128) == 128);
  receive(round);
  FILE* const file = tmpfile();
  CHECK(file != NULL && fwrite(block, 1, kBytes, file) == kBytes && fflush(file) == 0);
  rewind(file);
  receive(round);
  CHECK(fread(block, 1, kBytes, file) == kBytes);
  fclose(file);
  receive(round);
  CHECK(write(ends[1], block, 2 * kPage) == 2 * kPage);  // its first part is in no whole page
  CHECK(read(ends[0], other, 2 * kPage) == 2 * kPage);
  receive(round);
  CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, block + 6 * kPage) == 0);
  memset(block + 6 * kPage, value_of(round), sizeof(struct timespec));
  check_block(round);
  close(ends[0]);
  close(ends[1]);
}

// The program's own handlers are as it left them, and get what is theirs.
static sigjmp_buf back;
static volatile sig_atomic_t faults, sent, alarms;
static volatile unsigned char sum;
static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)context;
  if (info->si_code <= 0) {
    ++sent;
    return;
  }
  ++faults;
  sum += block[5 * kPage];  // must not be guarded any more
  siglongjmp(back, 1);
}
static void handlers(int round) {
  static char* hole;
  static char stack[65536];
  if (hole == NULL) {
    hole = mmap(NULL, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_sigaction = &on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  }
  receive(round);
  sum += block[kPage];  // a guard's fault
  CHECK(faults == 2 * round);
  if (sigsetjmp(back, 1) == 0) {
    receive(round);
    *hole = 1;
  }
  CHECK(faults == 2 * round + 1);
  check_block(round);
  if (sigsetjmp(back, 1) == 0) *hole = 1;
  CHECK(faults == 2 * round + 2);
  receive(round);
  CHECK(raise(SIGSEGV) == 0 && sent == 2 * round + 1);
  receive(round);
  CHECK(kill(getpid(), SIGSEGV) == 0 && sent == 2 * round + 2);
  receive(round);
  struct sigaction now;
  CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == &on_fault);
  CHECK(sigaction(SIGSYS, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
  check_block(round);
}

// The stack overflows while memory is guarded: handlers need the alternate stack.
static int overflow(int depth) {
  volatile char here[kPage];
  here[0] = (char)depth;
  return depth < 0 ? 0 : overflow(depth + 1) + here[0];
}
static void stack_overflows(int round) {
  static char stack[65536];
  if (round == 0) {
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_sigaction = &on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  }
  if (sigsetjmp(back, 1) == 0) {
    receive(round);
    sum += (unsigned char)overflow(0);
  }
  CHECK(faults == round + 1);
  check_block(round);
}

// Another process sends the signals that guards use, while this one makes no system call.
static void foreign_signals(int round) {
  static volatile int* go;
  static pid_t child;
  if (round == 0) {
    struct sigaction action = {.sa_sigaction = &on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && signal(SIGSYS, SIG_IGN) != SIG_ERR);
    go = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(go != MAP_FAILED);
    child = fork();
    for (int next = 1; child == 0; ++next) {
      while (go[0] < next && getppid() != 1) usleep(100);
      if (go[0] < next || kill(getppid(), next % 2 == 1 ? SIGSYS : SIGSEGV) != 0) _exit(0);
      go[1] = next;
      if (next == 2 * kRounds) _exit(0);
    }
    CHECK(child > 0);
  }
  receive(round);
  go[0] = 2 * round + 1;
  while (go[1] < 2 * round + 1) continue;  // SIGSYS is ignored
  check_block(round);
  receive(round);
  go[0] = 2 * round + 2;
  while (sent < round + 1) continue;
  check_block(round);
  if (round == kRounds - 1) CHECK(waitpid(child, NULL, 0) == child);
}

// A signal that comes during a system call is not kept back.
static void on_interrupt(int signal) {
  (void)signal;
  ++alarms;
}
static void interrupted(int round) {
  static volatile int* got;
  static pid_t child;
  if (round == 0) {
    struct sigaction action = {.sa_handler = &on_interrupt};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    got = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED);
    child = fork();
    while (child == 0) {
      usleep(1000);
      if (got[0] == 2 || getppid() == 1) _exit(0);
      if (got[0] == 1 && kill(getppid(), SIGUSR1) != 0) _exit(0);
    }
    CHECK(child > 0);
  }
  const struct timespec for_ever = {1000000, 0};
  receive(round);
  got[0] = 1;
  errno = 0;
  while (syscall(SYS_nanosleep, &for_ever, NULL) == 0) continue;
  CHECK(errno == EINTR);
  got[0] = round == kRounds - 1 ? 2 : 0;
  check_block(round);
  if (round == kRounds - 1) CHECK(waitpid(child, NULL, 0) == child);
}

// A handler on a small stack has no room for a second one.
static void small_stack(int round) {
  static char stack[16384];
  if (round == 0) {
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_handler = &on_interrupt, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  }
  receive(round);
  check_block(round);
}

static void blocked_signals(int round) {
  sigset_t all, before;
  sigfillset(&all);
  receive(round);
  CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
  check_block(round);
  receive(round);
  check_block(round);
  CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
}

// A handler that uses the block while all signals are blocked.
static void on_alarm(int signal) {
  (void)signal;
  sum += block[2 * kPage];
  ++alarms;
}
static void alarms_block(int round) {
  struct sigaction action = {.sa_handler = &on_alarm};
  sigfillset(&action.sa_mask);
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  receive(round);
  CHECK(raise(SIGALRM) == 0 && alarms == round + 1);
  check_block(round);
}

static void forks(int round) {
  receive(round);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kBytes; ++i) {
      if (block[i] != value_of(round)) _exit(1);
    }
    _exit(write(STDERR_FILENO, block, 0) == 0 ? 0 : 2);
  }
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  receive(round);
  const pid_t again = vfork();
  if (again == 0) _exit(block[kPage] == value_of(round) ? 0 : 1);
  CHECK(again > 0 && waitpid(again, &status, 0) == again && status == 0);
  receive(round);
  CHECK(system("exit 7") == 7 << 8);
  check_block(round);
}

static void check_read_only(unsigned char* memory) {
  const int zero = open("/dev/zero", O_RDONLY);
  CHECK(read(zero, memory, 1) == -1 && errno == EFAULT);
  CHECK(close(zero) == 0);
}

// Memory that goes away, or becomes other memory, while it is guarded.
static void memory_goes(int round) {
  unsigned char* const kept = block;
  block = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(block != MAP_FAILED);
  receive(round);
  CHECK(munmap(block + 4 * kPage, 4 * kPage) == 0);
  CHECK(mmap(block + 4 * kPage, 4 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        block + 4 * kPage);
  CHECK(block[0] == value_of(round) && block[4 * kPage] == 0);
  CHECK(munmap(block, kBytes) == 0);
  block = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  receive(round);
  block = mremap(block, kBytes, 4 * kBytes, MREMAP_MAYMOVE);
  CHECK(block != MAP_FAILED);
  check_block(round);
  receive(round);
  CHECK(mprotect(block, kBytes, PROT_READ) == 0);
  check_block(round);
  CHECK(munmap(block, 4 * kBytes) == 0);
  unsigned char* const before = mmap(NULL, kBytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(before != MAP_FAILED);
  block = before + kPage;
  receive(round);  // what goes begins before the guarded pages
  CHECK(mmap(before, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == before);
  for (int i = 0; i < kPage; ++i) CHECK(block[i] == 0 && block[i + kPage] == value_of(round));
  check_read_only(block);
  CHECK(mprotect(before, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
  receive(round);
  CHECK(madvise(before, 3 * kPage, MADV_DONTNEED) == 0);
  CHECK(block[kPage] == 0 && block[2 * kPage] == value_of(round));
  receive(round);
  CHECK(munmap(before, kBytes + kPage) == 0);
  block = malloc(kBytes);
  receive(round);
  free(block);
  block = calloc(1, kBytes);
  for (int i = 0; i < kBytes; ++i) CHECK(block[i] == 0);
  free(block);
  block = kept;
}

static void on_the_stack(int round) {
  unsigned char here[kBytes];
  unsigned char* const kept = block;
  block = here;
  receive(round);
  compute(0);
  check_block(round);
  block = kept;
}

static void* touch(void* round) {
  check_block(*(int*)round);
  return NULL;
}
static void threads(int round) {
  receive(round);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &touch, &round) == 0 && pthread_join(thread, NULL) == 0);
  check_block(round);
}

// The block goes on to the next rank, which reads it from this process.
static void passed_on(int round) {
  receive(round);
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  MPI_Request request;
  MPI_Irecv(other, kBytes, MPI_BYTE, last, 0, MPI_COMM_WORLD, &request);
  MPI_Send(block, kBytes, MPI_BYTE, next, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(memcmp(block, other, kBytes) == 0);
  receive(round);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, block, kBytes / size, MPI_BYTE, MPI_COMM_WORLD);
  check_block(round);
}

static void nonblocking(int round) {
  MPI_Request requests[2];
  if (rank == 0) memset(block, value_of(round), kBytes);
  memset(other, rank, kBytes / 2);
  MPI_Ibcast(block, kBytes, MPI_BYTE, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Iallreduce(other, other + kBytes / 2, kBytes / 2, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD, &requests[1]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);  // place: waits
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);  // place: waits_later
  compute(0.002);
  CHECK(other[kBytes - 1] == size - 1 && other[kBytes / 2] == size - 1);
  check_block(round);
  memset(other, 0, kBytes / 2);
}

// Sent data that are written: reading does not end the window.
static void sender(int round) {
  memset(other, round, kBytes);
  MPI_Reduce(other, block, kBytes, MPI_UNSIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);  // place: sends
  for (int i = 0; i < kBytes; ++i) CHECK(other[i] == round);
  if (rank == 0) CHECK(block[kPage] == round);
  memset(other, 0, kBytes);
}

static void one_sided(int round) {
  if (round == 0) {
    MPI_Win window;
    MPI_Win_create(other, kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
  }
  receive(round);
  check_block(round);
}

// All kinds of memory of the MPI or of a file that others reach.
static void allocated(int round) {
  static MPI_Win window;
  void* memory;
  if (round == 0) MPI_Win_allocate(kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  receive(round);
  check_block(round);
  if (round == kRounds - 1) MPI_Win_free(&window);
}
static void files(int round) {
  static char path[] = "/tmp/windows-XXXXXX";
  if (round == 0) {
    MPI_File file;
    CHECK(close(mkstemp(path)) == 0);
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    MPI_File_close(&file);
    unlink(path);
  }
  receive(round);
  check_block(round);
}

static void receive_in(unsigned char* memory, int round) {
  unsigned char* const kept = block;
  CHECK(memory != MAP_FAILED);
  block = memory;
  receive(round);
  check_block(round);
  block = kept;
}
static void shared(int round) {
  void* const memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  receive_in(memory, round);
  CHECK(munmap(memory, kBytes) == 0);
}
static void of_a_file(int round) {
  char path[] = "/tmp/windows-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && unlink(path) == 0 && ftruncate(file, kBytes) == 0);
  void* const memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  receive_in(memory, round);
  CHECK(munmap(memory, kBytes) == 0 && close(file) == 0);
}

// Sent data whose end may not be written, now and afterwards.
static void read_only(int round) {
  const int writable = 3 * kPage;
  unsigned char* const memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  memset(memory, round, kBytes);
  CHECK(mprotect(memory + writable, kBytes - writable, PROT_READ) == 0);
  MPI_Reduce(memory, block, kBytes, MPI_UNSIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);  // place: sends_read_only
  memory[0] = 0;
  check_read_only(memory + writable);
  CHECK(munmap(memory, kBytes) == 0);
}

// A driver may do anything.
static void device(int round) {
  static int zero = -1;
  if (zero < 0) zero = open("/dev/zero", O_RDONLY);
  CHECK(zero >= 0);
  receive(round);
  CHECK(read(zero, other, 100) == 100);
  check_block(round);
}

// The process has nearly as many mappings as it may.
static void mappings(int round) {
  int wanted = 0;
  FILE* const limit = fopen("/proc/sys/vm/max_map_count", "r");
  CHECK(limit != NULL && fscanf(limit, "%d", &wanted) == 1 && fclose(limit) == 0);
  FILE* const present = fopen("/proc/self/maps", "r");
  CHECK(present != NULL);
  for (int letter = getc(present); letter != EOF; letter = getc(present)) wanted -= letter == '\n';
  CHECK(fclose(present) == 0);
  wanted -= 1500;
  unsigned char* const all = mmap(NULL, (size_t)wanted * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(all != MAP_FAILED);
  for (int i = 0; i < wanted; i += 2) CHECK(mprotect(all + (size_t)i * kPage, kPage, PROT_NONE) == 0);
  receive(round);
  check_block(round);
  CHECK(munmap(all, (size_t)wanted * kPage) == 0);
}

static void filter(int round) {
  static struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, 0x7fff0000U);  // SECCOMP_RET_ALLOW
  const struct sock_fprog program = {1, &allow};
  if (round == 0) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, 2, &program) == 0);
  }
  receive(round);
  check_block(round);
}

// A thread that does nothing, but might.
static int thread_ends[2];
static void* wait_for_the_end(void* none) {
  char byte;
  CHECK(read(thread_ends[0], &byte, 1) == 0);
  return none;
}
static void another_thread(int round) {
  static pthread_t thread;
  if (round == 0) {
    CHECK(pipe(thread_ends) == 0 && pthread_create(&thread, NULL, &wait_for_the_end, NULL) == 0);
  }
  receive(round);
  check_block(round);
  if (round == kRounds - 1) CHECK(close(thread_ends[1]) == 0 && pthread_join(thread, NULL) == 0);
}

// System calls in the way of 32-bit programs have other numbers.
static int old_call(int number, int argument) {
  int result = 0;
#if defined(__x86_64__)
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(argument) : "memory", "r8", "r9", "r10", "r11");
#endif
  return result;
}
static void old_calls(int round) {
  enum { kGetpid = 20, kMkdir = 39 };
  static int are_there = -1;
  if (are_there < 0) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(old_call(kGetpid, 0) > 0 ? 0 : 1);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    are_there = status == 0;
  }
  receive(round);
  if (are_there) CHECK(old_call(kMkdir, 0) == -EFAULT);
  check_block(round);
}

static void on_foreign_call(int signal) {
  (void)signal;
}
static void own_call_handler(int round) {
  const struct sigaction action = {.sa_handler = &on_foreign_call};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0);
  receive(round);
  check_block(round);
  CHECK(raise(SIGSYS) == 0);
}

// The program is on a stack of its own when it receives.
static int round_there;
static void receive_there(void) {
  receive(round_there);
}
static void own_stack(int round) {
  static ucontext_t here, there;
  static unsigned char* stack;
  enum { kStack = 1 << 20 };
  if (stack == NULL) stack = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && getcontext(&there) == 0);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = kStack;
  there.uc_link = &here;
  round_there = round;
  makecontext(&there, &receive_there, 0);
  CHECK(swapcontext(&here, &there) == 0);
  check_block(round);
}

static void often_on_the_stack(int round) {
  for (int i = 0; i < 150; ++i) on_the_stack(round);
}

// Elements with a hole that their size and extent do not show: two pieces are the same. Elements without one.
static void types(int round) {
  static const int lengths[] = {1, 1, 1}, places[] = {0, 0, 2};
  MPI_Datatype holed, whole;
  const int count = kBytes / 12 / size;
  MPI_Type_indexed(3, lengths, places, MPI_INT, &holed);
  MPI_Type_contiguous(3, MPI_INT, &whole);
  MPI_Type_commit(&holed);
  MPI_Type_commit(&whole);
  memset(block, value_of(round), kBytes);
  MPI_Allgather(block, count, holed, other, 3 * count, MPI_INT, MPI_COMM_WORLD);  // place: holed
  memset(block, value_of(round), kBytes);
  MPI_Allgather(block, count, whole, other, count, whole, MPI_COMM_WORLD);  // place: whole
  for (int i = 0; i < 12 * count * size; ++i) CHECK(other[i] == value_of(round));
  MPI_Barrier(MPI_COMM_WORLD);  // place: barriers
  MPI_Type_free(&holed);
  MPI_Type_free(&whole);
}

// Partitions that the other process may read from their MPI_Pready on.
static void partitions(int round) {
#if MPI_VERSION >= 4
  MPI_Request request;
  const int quarter = kBytes / 4;
  int last[] = {2, 3};
  if (rank == 0) {
    MPI_Psend_init(block, 4, quarter, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  } else {
    MPI_Precv_init(other, 4, quarter, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  }
  MPI_Start(&request);
  receive(round);
  if (rank == 0 && round % 3 == 0) MPI_Pready_range(0, 3, request);
  if (rank == 0 && round % 3 != 0) {
    if (round % 3 == 1) MPI_Pready(1, request);
    if (round % 3 == 1) MPI_Pready(0, request);
    MPI_Pready_list(2, last, request);
    if (round % 3 == 2) MPI_Pready_range(0, 1, request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  if (rank == 1) CHECK(memcmp(block, other, kBytes) == 0);
#else
  receive(round);
#endif
}

// A program may look for calls that its MPI lacks.
static void names(int round) {
  static const char* const calls[] = {"MPI_Isendrecv",    "MPI_Isendrecv_replace", "MPI_Pready",
                                      "MPI_Pready_range", "MPI_Pready_list",       "MPI_Send_c",
                                      "MPI_Sendrecv_c",   "MPI_Win_allocate_c"};
  Dl_info mpi;
  CHECK(dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_version"), &mpi) != 0);
  void* const library = dlopen(mpi.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  CHECK(library != NULL);
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
    if (dlsym(RTLD_DEFAULT, calls[i]) != NULL) CHECK(dlsym(library, calls[i]) != NULL);
  }
  receive(round);
}

struct Way {
  const char* name;
  void (*run)(int round);
  int receives;
};
static const struct Way ways[] = {
    {"use", &use, 1},
    {"compute", &compute_first, 1},
    {"nothing", &no_use, 1},
    {"system-calls", &system_calls, 0},
    {"handlers", &handlers, 0},
    {"blocked", &blocked_signals, 0},
    {"alarms", &alarms_block, 0},
    {"forks", &forks, 0},
    {"memory", &memory_goes, 0},
    {"stack", &on_the_stack, 0},
    {"threads", &threads, 0},
    {"passed-on", &passed_on, 0},
    {"nonblocking", &nonblocking, 0},
    {"sender", &sender, 0},
    {"one-sided", &one_sided, 0},
    {"own-call-handler", &own_call_handler, 0},
    {"own-stack", &own_stack, 0},
    {"often", &often_on_the_stack, 0},
    {"types", &types, 0},
    {"partitions", &partitions, 0},
    {"names", &names, 0},
    {"overflow", &stack_overflows, 0},
    {"foreign-signals", &foreign_signals, 0},
    {"interrupted", &interrupted, 0},
    {"small-stack", &small_stack, 0},
    {"allocated", &allocated, 0},
    {"files", &files, 0},
    {"shared", &shared, 0},
    {"of-a-file", &of_a_file, 0},
    {"read-only", &read_only, 0},
    {"device", &device, 0},
    {"mappings", &mappings, 0},
    {"filter", &filter, 0},
    {"another-thread", &another_thread, 0},
    {"old-calls", &old_calls, 0},
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  block = malloc(kBytes);
  other = malloc(kBytes);
  const char* const wanted = argc > 1 ? argv[1] : "use";
  for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); ++way) {
    if (strcmp(ways[way].name, wanted) != 0) continue;
    for (int round = 0; round < kRounds; ++round) {
      if (ways[way].receives) receive(round);
      ways[way].run(round);
    }
  }
  if (rank == 0) printf("windows: %s is right\n", wanted);
  MPI_Finalize();
  return 0;
}
