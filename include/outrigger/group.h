/* Outrigger's collectives for programs without MPI.
 *
 * A group is a fixed number of processes with ranks from 0 on. They do collectives themselves. If
 * OUTRIGGER_SERVICE_CPUS names cores on each machine, the group also has a service process on them on each. Ranks on
 * one machine, in one container, share memory; others are connected by TCP, at the address of the network device that
 * GLOO_SOCKET_IFNAME names, or of the route to MASTER_ADDR. Only isend and irecv start a thread, one for each group. A
 * program links liboutrigger_group (-loutrigger_group).
 *
 * Units      sizes are bytes, counts elements, timeouts milliseconds.
 * Ownership  buffers and lists are the caller's, and are the caller's again when a function returns. Buffers of
 *            outrigger_group_isend() and outrigger_group_irecv() are the library's until the request is complete.
 * Threads    any thread. Collectives of one group are done one at a time; all ranks must call them in the same order.
 *            Sends and receives may run beside them.
 * Forks      a child of a rank cannot use the group: functions return OUTRIGGER_GROUP_BAD_ARGUMENT, or do nothing.
 * Completion a function is complete when it returns, except isend and irecv.
 * Errors     an enum outrigger_group_result. outrigger_group_last_error() has the text of the calling thread's last
 *            one. It names the rank that died, that made another call, or that was waited for in vain. The latter may
 *            wait for another rank itself. After an error of a collective the group can only be destroyed.
 * Bits       a reduction adds in the order of ranks on each machine, and then in the order of machines: equal inputs
 *            give equal bits, on all ranks and in every run. Elements of 16 bits are added as float32, rounded once.
 */
#ifndef OUTRIGGER_GROUP_H
#define OUTRIGGER_GROUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increased with each change that affects programs. */
#define OUTRIGGER_GROUP_API_VERSION 1

enum outrigger_group_result {
  OUTRIGGER_GROUP_OK = 0,
  OUTRIGGER_GROUP_BAD_ARGUMENT = 1, /* nothing was done, and the group is as before */
  OUTRIGGER_GROUP_TIMEOUT = 2,      /* a rank has not come in time, or waits for another rank itself */
  OUTRIGGER_GROUP_DEAD_RANK = 3,    /* a rank's process, or a machine's service process, has ended, or a rank has
                                       destroyed its group; on another machine: or cannot be reached */
  OUTRIGGER_GROUP_DIFFERENT = 4,    /* ranks made different calls, or a message does not fit into its buffer */
  OUTRIGGER_GROUP_ABORTED = 5,      /* a rank has called outrigger_group_abort(), or a timeout has ended the group */
  OUTRIGGER_GROUP_NO_MEMORY = 6,    /* memory cannot be had, or a rank or its memory not reached; ends the group */
  OUTRIGGER_GROUP_STORE_FAILED = 7, /* a callback of the store returned an error */
  OUTRIGGER_GROUP_PENDING = 8       /* the request is not complete; not an error */
};

enum outrigger_group_type {
  OUTRIGGER_GROUP_INT8 = 1,
  OUTRIGGER_GROUP_INT16 = 2,
  OUTRIGGER_GROUP_INT32 = 3,
  OUTRIGGER_GROUP_INT64 = 4,
  OUTRIGGER_GROUP_UINT8 = 5,
  OUTRIGGER_GROUP_UINT16 = 6,
  OUTRIGGER_GROUP_UINT32 = 7,
  OUTRIGGER_GROUP_UINT64 = 8,
  OUTRIGGER_GROUP_FLOAT32 = 9,
  OUTRIGGER_GROUP_FLOAT64 = 10,
  OUTRIGGER_GROUP_FLOAT16 = 11,
  OUTRIGGER_GROUP_BFLOAT16 = 12,
  OUTRIGGER_GROUP_BOOL = 13 /* one byte, 0 or 1: sum, max and bor are "or"; product, min and band "and"; bxor "xor" */
};

enum outrigger_group_operation {
  OUTRIGGER_GROUP_SUM = 1,
  OUTRIGGER_GROUP_PRODUCT = 2,
  OUTRIGGER_GROUP_MIN = 3,
  OUTRIGGER_GROUP_MAX = 4,
  OUTRIGGER_GROUP_BAND = 5, /* integers and bool only, as the next two */
  OUTRIGGER_GROUP_BOR = 6,
  OUTRIGGER_GROUP_BXOR = 7,
  OUTRIGGER_GROUP_AVERAGE = 8 /* floating-point numbers only: the sum, divided by the number of ranks */
};

/* By which ranks find each other: any key-value store that all of them reach. */
struct outrigger_group_store {
  void* context;
  /* Stores a value. Each key is set once. Returns 0, or anything else for an error. */
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits up to `timeout_ms` until the key is set, then fills in exactly `bytes` of value. Returns as set. */
  int (*get)(void* context, const char* key, void* value, size_t bytes, int64_t timeout_ms);
};

struct outrigger_group_config {
  uint32_t rank;
  uint32_t size;                      /* 1 to 64 */
  struct outrigger_group_store store; /* keys of this group alone; only used until outrigger_group_create() returns */
  int64_t timeout_ms;                 /* of each wait of a call for another rank; 0: 30 minutes. A call never returns while
                                         another rank, though stopped, may be writing into its buffers */
};

typedef struct outrigger_group outrigger_group;
typedef struct outrigger_group_request outrigger_group_request;

/* A short text for a result. Never NULL. */
const char* outrigger_group_result_text(int result);
/* The last error of this thread in this library: a sentence, "" if there was none. Valid until the thread's next call.
 */
const char* outrigger_group_last_error(void);

/* Collective: returns when all ranks have come. */
int outrigger_group_create(const struct outrigger_group_config* config, outrigger_group** group);
/* Not collective. No other thread may be in a call of the group. NULL is ignored. */
void outrigger_group_destroy(outrigger_group* group);
/* Ends all calls of this group on all ranks with OUTRIGGER_GROUP_ABORTED, now and later. */
void outrigger_group_abort(outrigger_group* group);
/* For the calls that follow. */
void outrigger_group_set_timeout(outrigger_group* group, int64_t timeout_ms);

/* For the collectives that follow: 1: the group's service process does them, and the calling thread sleeps meanwhile.
 * 0: the ranks do them by themselves. Ranks may differ: the one that comes first to a collective decides. Returns 1 if
 * the group has service processes. Results have the same bits. If the process ends, ranks finish what it was doing; on
 * several machines, that is an error, OUTRIGGER_GROUP_DEAD_RANK. */
int outrigger_group_prefer_service(outrigger_group* group, int prefer);
/* The process id of the group's service process on this machine; 0: it has none. */
int outrigger_group_service_process(const outrigger_group* group);

/* One block for each rank: equally long ones in a row (`bytes` and `offsets` are NULL), or any. */
struct outrigger_group_blocks {
  void* base;
  uint64_t each;           /* bytes of every block, if all are equally long */
  const uint64_t* bytes;   /* of each block, or NULL */
  const uint64_t* offsets; /* of each block from `base`; with `bytes` */
};

int outrigger_group_barrier(outrigger_group* group);
int outrigger_group_broadcast(outrigger_group* group, void* buffer, uint64_t bytes, uint32_t root);
/* `from` and `into` are the same, or do not overlap. */
int outrigger_group_all_reduce(outrigger_group* group, const void* from, void* into, uint64_t count, int type,
                               int operation);
/* Only the root's `into` counts. */
int outrigger_group_reduce(outrigger_group* group, const void* from, void* into, uint64_t count, int type,
                           int operation, uint32_t root);
/* `from` has a block for each rank, in a row, of counts[rank] elements; `into` gets the result of this rank's block.
 * They do not overlap, or begin at the same address. */
int outrigger_group_reduce_scatter(outrigger_group* group, const void* from, void* into, const uint64_t* counts,
                                   int type, int operation);
/* All ranks know all lengths. `from` may be the own block. */
int outrigger_group_all_gather(outrigger_group* group, const void* from, uint64_t bytes,
                               const struct outrigger_group_blocks* into);
/* Equally long blocks; only the root's `into` or `from` counts, and others may pass NULL. */
int outrigger_group_gather(outrigger_group* group, const void* from, uint64_t bytes,
                           const struct outrigger_group_blocks* into, uint32_t root);
int outrigger_group_scatter(outrigger_group* group, const struct outrigger_group_blocks* from, void* into,
                            uint64_t bytes, uint32_t root);
/* Block j of rank i's `from` goes to block i of rank j's `into`. The two do not overlap. Equally long blocks ... */
int outrigger_group_all_to_all(outrigger_group* group, const struct outrigger_group_blocks* from,
                               const struct outrigger_group_blocks* into);
/* ... or any lengths that both ends know. */
int outrigger_group_all_to_allv(outrigger_group* group, const struct outrigger_group_blocks* from,
                                const struct outrigger_group_blocks* into);

/* Messages between two ranks arrive in the order in which they were sent, for each tag. A message of another tag than
 * the one that is waited for is kept. Without a wait, up to 64 MiB of them are kept from each rank; then its sender
 * waits. A receive from any rank fails when all other ranks have ended. */
#define OUTRIGGER_GROUP_ANY_RANK UINT32_MAX
int outrigger_group_send(outrigger_group* group, const void* from, uint64_t bytes, uint32_t to, int64_t tag);
/* The message must have exactly `bytes`. */
int outrigger_group_recv(outrigger_group* group, void* into, uint64_t bytes, uint32_t source, int64_t tag);
/* These return at once. A thread of the library moves the bytes. An error of the group is told by test() and wait(). */
int outrigger_group_isend(outrigger_group* group, const void* from, uint64_t bytes, uint32_t to, int64_t tag,
                          outrigger_group_request** request);
int outrigger_group_irecv(outrigger_group* group, void* into, uint64_t bytes, uint32_t source, int64_t tag,
                          outrigger_group_request** request);
/* OUTRIGGER_GROUP_PENDING: not yet. */
int outrigger_group_test(outrigger_group_request* request);
/* OUTRIGGER_GROUP_TIMEOUT: the request is as before. If a collective was late: OUTRIGGER_GROUP_ABORTED. `timeout_ms` 0:
 * the group's. */
int outrigger_group_wait(outrigger_group_request* request, int64_t timeout_ms);
/* The rank from which a completed receive came. */
uint32_t outrigger_group_source(const outrigger_group_request* request);
/* Also of a request that is not complete: it is cancelled. If half of its bytes have moved, the group is aborted.
 * Before the group is destroyed. NULL is ignored. */
void outrigger_group_free(outrigger_group_request* request);

#ifdef __cplusplus
}
#endif

#endif
