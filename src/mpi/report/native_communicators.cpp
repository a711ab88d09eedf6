#include "mpi/report/native_communicators.hpp"

#include <array>
#include <string_view>

#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constinit int record_keyval = MPI_KEYVAL_INVALID;

int no_copy(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* /*value*/, void* /*copy*/, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

// Records stay.
int no_delete(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  return MPI_SUCCESS;
}

GroupId id_of(std::string_view name, int size) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  return GroupId{hash, static_cast<std::uint64_t>(size)};
}

CommRecord* record_for(MPI_Comm comm) {
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  int size = 0;
  real().Comm_get_name(comm, name.data(), &length);
  real().Comm_size(comm, &size);
  return report_communicator(id_of(name.data(), size), static_cast<std::uint32_t>(size));
}

}  // namespace

bool register_native_communicators() {
  if (record_keyval != MPI_KEYVAL_INVALID) return true;
  return real().Comm_create_keyval(&no_copy, &no_delete, &record_keyval, nullptr) == MPI_SUCCESS;
}

void forget_native_communicators() {
  if (record_keyval != MPI_KEYVAL_INVALID) real().Comm_free_keyval(&record_keyval);
}

CommRecord* record_of_native(MPI_Comm comm) {
  if (record_keyval == MPI_KEYVAL_INVALID) return nullptr;
  void* value = nullptr;
  int found = 0;
  if (real().Comm_get_attr(comm, record_keyval, static_cast<void*>(&value), &found) != MPI_SUCCESS) return nullptr;
  if (found != 0) return static_cast<CommRecord*>(value);
  CommRecord* record = record_for(comm);
  if (record != nullptr) real().Comm_set_attr(comm, record_keyval, record);
  return record;
}

}  // namespace outrigger::mpi
