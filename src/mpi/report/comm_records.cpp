#include "mpi/report/comm_records.hpp"

#include <array>
#include <string_view>

#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/attributes.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constinit int record_keyval = MPI_KEYVAL_INVALID;

// Records stay.
int note_freed(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  note_freed_communicator();
  return MPI_SUCCESS;
}

GroupId id_of(std::string_view name, int size) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  return GroupId{hash, static_cast<std::uint64_t>(size)};
}

CommRecord* find_attached(MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  const bool told =
      real().Comm_get_attr(comm, record_keyval, static_cast<void*>(&value), &found) == MPI_SUCCESS && found != 0;
  return told ? static_cast<CommRecord*>(value) : nullptr;
}

}  // namespace

bool register_comm_records() {
  if (record_keyval != MPI_KEYVAL_INVALID) return true;
  return real().Comm_create_keyval(&attribute_not_copied, &note_freed, &record_keyval, nullptr) == MPI_SUCCESS;
}

void forget_comm_records() {
  if (record_keyval != MPI_KEYVAL_INVALID) real().Comm_free_keyval(&record_keyval);
}

CommRecord& attached_record(MPI_Comm comm, CommRecord& (*make)(MPI_Comm)) {
  if (record_keyval == MPI_KEYVAL_INVALID) return make(comm);
  if (CommRecord* attached = find_attached(comm)) return *attached;
  CommRecord& made = make(comm);
  real().Comm_set_attr(comm, record_keyval, &made);
  return made;
}

CommRecord* record_by_name(MPI_Comm comm) {
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  int size = 0;
  real().Comm_get_name(comm, name.data(), &length);
  real().Comm_size(comm, &size);
  return report_communicator(id_of(name.data(), size), static_cast<std::uint32_t>(size));
}

}  // namespace outrigger::mpi
