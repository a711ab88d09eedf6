#include "calls_tests.hpp"

#include <cstddef>

#include "fail.h"

namespace calls {
namespace {

template <std::size_t bytes>
void alloc_mem(Objects& /*objects*/) {
  void* memory = nullptr;
  MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, static_cast<void*>(&memory));
  *static_cast<volatile char*>(memory) = 1;
  MPI_Free_mem(memory);
}

void type_vector(Objects& /*objects*/) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(4, 2, 5, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&type);
}

void type_dup(Objects& /*objects*/) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_dup(MPI_DOUBLE, &type);
  MPI_Type_free(&type);
}

void attribute_get(Objects& objects) {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, objects.keyval, static_cast<void*>(&value), &found);
}

void attribute_set(Objects& objects) {
  MPI_Comm_set_attr(MPI_COMM_WORLD, objects.keyval, &objects);
}

void comm_dup(Objects& /*objects*/) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_free(&comm);
}

void comm_split(Objects& objects) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, objects.rank, &comm);
  MPI_Comm_free(&comm);
}

void comm_create(Objects& /*objects*/) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
}

void win_create(Objects& objects) {
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_create(objects.memory.data(), static_cast<MPI_Aint>(objects.memory.size()), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                 &window);
  MPI_Win_free(&window);
}

void win_allocate(Objects& /*objects*/) {
  MPI_Win window = MPI_WIN_NULL;
  void* memory = nullptr;
  MPI_Win_allocate(1 << 16, 1, MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void*>(&memory), &window);
  MPI_Win_free(&window);
}

void win_put(Objects& objects) {
  MPI_Win_lock(MPI_LOCK_SHARED, objects.rank, 0, objects.window);
  MPI_Put(objects.sent.data(), 1, MPI_LONG, objects.rank, 0, 1, MPI_LONG, objects.window);
  MPI_Win_unlock(objects.rank, objects.window);
}

void send_receive(Objects& objects) {
  MPI_Sendrecv(objects.sent.data(), 1, MPI_LONG, objects.peer, 7, objects.received.data(), 1, MPI_LONG, MPI_ANY_SOURCE,
               7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void receive_wait(Objects& objects) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(objects.received.data(), 1, MPI_LONG, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void barrier(Objects& /*objects*/) {
  MPI_Barrier(MPI_COMM_WORLD);
}

void bcast(Objects& objects) {
  MPI_Bcast(objects.received.data(), 1, MPI_LONG, 0, MPI_COMM_WORLD);
}

void allreduce(Objects& objects) {
  MPI_Allreduce(objects.sent.data(), objects.received.data(), 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

void iallreduce(Objects& objects) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(objects.sent.data(), objects.received.data(), 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void igather(Objects& objects) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Igather(objects.sent.data(), 1, MPI_LONG, objects.received.data(), 1, MPI_LONG, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

constexpr int kShort = 2000;
constexpr int kMiddle = 200;
constexpr int kLong = 50;

constexpr std::array kTests{
    Test{"alloc_mem_64", kShort, alloc_mem<64>},
    Test{"alloc_mem_64k", kMiddle, alloc_mem<(64U << 10)>},
    Test{"alloc_mem_1m", kMiddle, alloc_mem<(1U << 20)>},
    Test{"alloc_mem_64m", kLong, alloc_mem<(64U << 20)>},
    Test{"type_vector", kShort, type_vector},
    Test{"type_dup", kShort, type_dup},
    Test{"attribute_get", kShort, attribute_get},
    Test{"attribute_set", kShort, attribute_set},
    Test{"comm_dup", kLong, comm_dup},
    Test{"comm_split", kLong, comm_split},
    Test{"comm_create", kLong, comm_create},
    Test{"win_create", kLong, win_create},
    Test{"win_allocate", kLong, win_allocate},
    Test{"win_put", kShort, win_put},
    Test{"sendrecv", kShort, send_receive},
    Test{"irecv_wait", kShort, receive_wait},
    Test{"barrier", kShort, barrier},
    Test{"bcast", kShort, bcast},
    Test{"allreduce", kShort, allreduce},
    Test{"iallreduce", kShort, iallreduce},
    Test{"igather", kShort, igather},
};

}  // namespace

Objects::Objects() {
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (static_cast<std::size_t>(ranks) > received.size()) fail("%d ranks: too many for this benchmark", ranks);
  peer = (rank + 1) % ranks;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, this);
  MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size()), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
}

Objects::~Objects() {
  MPI_Win_free(&window);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  MPI_Comm_free_keyval(&keyval);
}

std::span<const Test> tests() {
  return kTests;
}

}  // namespace calls
