#include "options.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "numbers.h"
#include "reductions.h"

static const char kUsage[] =
    "  --collectives LIST  of ialltoall,ialltoallv,ialltoallw,iallgather,iallgatherv,ibcast,iallreduce,ireduce,\n"
    "                      ireduce_scatter_block,igather,igatherv,iscatter,iscatterv,ibarrier,\n"
    "                      ireduce_scatter,iscan,iexscan,\n"
    "                      ineighbor_alltoall,ineighbor_alltoallv,ineighbor_alltoallw,ineighbor_allgather,\n"
    "                      ineighbor_allgatherv (ialltoall), and the persistent "
    "forms: alltoall_init ...\n"
    "  --memory LIST       of alloc_mem,malloc: where the buffers come from (alloc_mem)\n"
    "  --sizes LIST        bytes of a block: for each pair of ranks, of each rank, of the root "
    "(16384,65536,262144,1048576)\n"
    "  --iterations N      at most so many per configuration (200)\n"
    "  --seconds S         at most about so long per configuration (3)\n"
    "  --work LIST         iterations of work, one per configuration; unless given, as long as the pure latency\n"
    "  --milliseconds MS   the same in milliseconds\n"
    "  --figures NAME      orbench: medians, or samples: every round's times, native against what a program gets\n"
    "                      that says nothing; --collectives may name forms that block, alltoall (medians)\n"
    "  --type NAME         of int32,double: numbers that reductions add (int32)\n"
    "  --order NAME        contiguous: ranks as the launcher gave them; strided: by turns over the nodes "
    "(contiguous)\n";

static void parse_collective(Options* options, const char* text) {
  const int index = options->collective_count;
  if (index == kForms) fail("--collectives: there are only %d", (int)kForms);
  for (Collective c = kIalltoall; c < kCollectives; c++) {
    const bool blocking = strcmp(text, blocking_name(c)) == 0;
    const bool persistent = strcmp(text, persistent_name(c)) == 0;
    if (!blocking && !persistent && strcmp(text, collective_name(c)) != 0) continue;
    options->collectives[index] = c;
    options->blocking[index] = blocking;
    options->persistent[index] = persistent;
    options->collective_count++;
    return;
  }
  fail("--collectives: '%s' is none that is measured; --help lists them", text);
}

static Memory parse_memory(const char* text) {
  for (Memory m = kAllocMem; m <= kMalloc; m++) {
    if (strcmp(text, memory_name(m)) == 0) return m;
  }
  fail("--memory: '%s' is neither alloc_mem nor malloc", text);
}

static void parse_list(Options* options, const char* option, char* list) {
  char* rest = NULL;
  for (char* item = strtok_r(list, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
    if (strcmp(option, "--collectives") == 0) {
      parse_collective(options, item);
    } else if (strcmp(option, "--memory") == 0) {
      if (options->memory_count == 2) fail("--memory: there are only two kinds");
      options->memories[options->memory_count++] = parse_memory(item);
    } else if (strcmp(option, "--sizes") == 0) {
      if (options->size_count == kMaxSizes) fail("--sizes: more than %d sizes", kMaxSizes);
      options->sizes[options->size_count++] = (int)parse_number(option, item, 1, 1 << 28);
    } else {
      if (options->work_count == kMaxWork) fail("--work: more than %d values", kMaxWork);
      options->work[options->work_count++] = (uint64_t)parse_number(option, item, 0, LONG_MAX);
    }
  }
}

static bool parse_strided(const char* text) {
  const bool strided = strcmp(text, "strided") == 0;
  if (!strided && strcmp(text, "contiguous") != 0) fail("--order: '%s' is neither contiguous nor strided", text);
  return strided;
}

static void parse_type(const char* text) {
  if (strcmp(text, "double") == 0) {
    reduce_doubles();
  } else if (strcmp(text, "int32") != 0) {
    fail("--type: '%s' is neither int32 nor double", text);
  }
}

static bool parse_samples(const char* text) {
  const bool samples = strcmp(text, "samples") == 0;
  if (!samples && strcmp(text, "medians") != 0) fail("--figures: '%s' is neither medians nor samples", text);
  return samples;
}

static void check_forms(const Options* options) {
  for (int i = 0; i < options->collective_count; i++) {
    if (options->blocking[i] && !options->samples) {
      fail("--collectives: '%s' blocks, which is measured with --figures samples only",
           blocking_name(options->collectives[i]));
    }
  }
}

static void set_defaults(Options* options) {
  if (!options->collective_count) options->collectives[options->collective_count++] = kIalltoall;
  if (!options->memory_count) options->memories[options->memory_count++] = kAllocMem;
  if (!options->size_count) {
    for (int bytes = 16384; bytes <= 1 << 20; bytes *= 4) options->sizes[options->size_count++] = bytes;
  }
  const int configurations = options->collective_count * options->memory_count * options->size_count;
  if (options->work_count && options->work_count != configurations) {
    fail("--work: %d values for %d configurations", options->work_count, configurations);
  }
}

static void check_buffers(const Options* options) {
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < options->size_count; i++) {
    if ((long)options->sizes[i] * ranks > INT_MAX) {
      fail("--sizes: %d bytes for each of %d ranks is more than the displacements of MPI can say", options->sizes[i],
           ranks);
    }
  }
}

Options options_parse(int argc, char** argv, const char* about) {
  Options options = {.iterations = 200, .seconds = 3};
  for (int i = 1; i < argc; i++) {
    const char* option = argv[i];
    if (strcmp(option, "--help") == 0) {
      int rank;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      if (rank == 0) printf("%s\n\n%s", about, kUsage);
      MPI_Finalize();
      exit(0);
    }
    char* value = i + 1 < argc ? argv[++i] : NULL;
    if (!value) fail("%s: unknown option, or its value is missing; --help lists the options", option);
    if (strcmp(option, "--iterations") == 0) {
      options.iterations = (int)parse_number(option, value, 1, 1000000);
    } else if (strcmp(option, "--seconds") == 0) {
      options.seconds = (double)parse_number(option, value, 1, 3600);
    } else if (strcmp(option, "--milliseconds") == 0) {
      options.seconds = 1e-3 * (double)parse_number(option, value, 1, 3600000);
    } else if (strcmp(option, "--figures") == 0) {
      options.samples = parse_samples(value);
    } else if (strcmp(option, "--type") == 0) {
      parse_type(value);
    } else if (strcmp(option, "--order") == 0) {
      options.strided = parse_strided(value);
    } else if (strcmp(option, "--collectives") == 0 || strcmp(option, "--memory") == 0 ||
               strcmp(option, "--sizes") == 0 || strcmp(option, "--work") == 0) {
      parse_list(&options, option, value);
    } else {
      fail("unknown option '%s'; --help lists the options", option);
    }
  }
  set_defaults(&options);
  check_forms(&options);
  check_buffers(&options);
  return options;
}

MPI_Comm options_comm(const Options* options) {
  if (!options->strided) return MPI_COMM_WORLD;
  MPI_Comm node;
  MPI_Comm comm;
  int number;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &number);
  MPI_Comm_free(&node);
  MPI_Comm_split(MPI_COMM_WORLD, 0, number, &comm);  // first every node's first rank, then every node's second one, ...
  return comm;
}
