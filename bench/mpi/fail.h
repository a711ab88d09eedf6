// Ends the job with a message.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Prints "program: message" once (from world rank 0, or from the caller before MPI_Init) and ends every rank.
void fail(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));

// malloc that ends the job when there is no memory.
void* allocate_or_fail(unsigned long bytes);

#ifdef __cplusplus
}
#endif
