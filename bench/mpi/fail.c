#include "fail.h"

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s: ", program_invocation_short_name);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  int up = 0;
  MPI_Initialized(&up);
  if (up) MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

void* allocate_or_fail(unsigned long bytes) {
  void* memory = malloc(bytes ? bytes : 1);
  if (!memory) fail("no memory for %lu bytes", bytes);
  return memory;
}
