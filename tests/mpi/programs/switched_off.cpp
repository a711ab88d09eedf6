// Blocking collectives on communicators that the info key outrigger switches off, and on again.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

constexpr int kCalls = 100;

void make_calls(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  for (int call = 0; call < kCalls; ++call) {
    const int mine = call;
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum == ranks * call) continue;
    std::printf("a sum is %d in place of %d\n", sum, ranks * call);
    std::exit(1);
  }
}

MPI_Info saying(const char* value) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "outrigger", value);
  return info;
}

MPI_Comm named(MPI_Comm comm, const char* name) {
  MPI_Comm_set_name(comm, name);
  return comm;
}

MPI_Comm duplicate(MPI_Comm comm, const char* value, const char* name) {
  MPI_Info info = saying(value);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup_with_info(comm, info, &made);
  MPI_Info_free(&info);
  return named(made, name);
}

void set_info(MPI_Comm comm, const char* value) {
  MPI_Info info = saying(value);
  MPI_Comm_set_info(comm, info);
  MPI_Info_free(&info);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm off = duplicate(MPI_COMM_WORLD, "off", "off");
  make_calls(off);
  MPI_Comm inherited = MPI_COMM_NULL;
  MPI_Comm_dup(off, &inherited);
  make_calls(named(inherited, "inherited"));
  MPI_Comm on = duplicate(off, "on", "on");
  make_calls(on);
  MPI_Comm changed = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &changed);
  make_calls(named(changed, "changed"));
  set_info(changed, "off");
  make_calls(changed);
  set_info(changed, "on");
  make_calls(changed);
  for (MPI_Comm* comm : {&off, &inherited, &on, &changed}) MPI_Comm_free(comm);
  MPI_Finalize();
}
