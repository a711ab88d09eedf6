#include "communicators.hpp"

#include <utility>

#include "../programs/native_twin.hpp"

namespace differential {
namespace {

MPI_Comm make_dup(MPI_Comm parent) {
  MPI_Comm result;
  MPI_Comm_dup(parent, &result);
  return result;
}

MPI_Comm make_idup(MPI_Comm parent) {
  MPI_Comm result;
  MPI_Request request;
  MPI_Comm_idup(parent, &result, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return result;
}

MPI_Comm make_split(MPI_Comm parent, int color, int key) {
  MPI_Comm result;
  MPI_Comm_split(parent, color, key, &result);
  return result;
}

MPI_Comm make_cart(MPI_Comm parent, bool reorder) {
  int size;
  MPI_Comm_size(parent, &size);
  int dimensions[2] = {0, 0};
  const int periodic[2] = {1, 0};
  MPI_Dims_create(size, 2, dimensions);
  MPI_Comm result;
  MPI_Cart_create(parent, 2, dimensions, periodic, reorder ? 1 : 0, &result);
  return result;
}

// About two thirds of the ranks, at least one, in a rotated order.
MPI_Group some_of(MPI_Comm parent, Random& random) {
  MPI_Group everyone;
  MPI_Group some;
  int size;
  MPI_Comm_group(parent, &everyone);
  MPI_Group_size(everyone, &size);
  const int first = random.below(size);
  std::vector<int> ranks;
  for (int i = 0; i < size; ++i) {
    if (i == 0 || random.chance(60)) ranks.push_back((first + i) % size);
  }
  MPI_Group_incl(everyone, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Group_free(&everyone);
  return some;
}

MPI_Comm make_create(MPI_Comm parent, Random& random) {
  MPI_Group some = some_of(parent, random);
  MPI_Comm result;
  MPI_Comm_create(parent, some, &result);
  MPI_Group_free(&some);
  return result;
}

// Only the members call it.
MPI_Comm make_create_group(MPI_Comm parent, Random& random) {
  MPI_Group some = some_of(parent, random);
  int rank;
  MPI_Group_rank(some, &rank);
  MPI_Comm result = MPI_COMM_NULL;
  if (rank != MPI_UNDEFINED) MPI_Comm_create_group(parent, some, 7, &result);
  MPI_Group_free(&some);
  return result;
}

}  // namespace

Communicators::Communicators(MPI_Comm parent, Random random) {
  int rank;
  int size;
  MPI_Comm_rank(parent, &rank);
  MPI_Comm_size(parent, &size);
  add("parent", parent, false);
  add("dup", make_dup(parent), true);
  add("idup", make_idup(parent), true);
  add("reversed", make_split(parent, 0, -rank), true);
  add("dup of reversed", make_dup(all_.back().offloaded), true);
  add("halves", make_split(parent, rank % 2, rank), true);
  add("idup of half", make_idup(all_.back().offloaded), true);
  const int left_out = random.below(size);
  add("all but one", make_split(parent, rank == left_out && size > 1 ? MPI_UNDEFINED : 0, (rank + 3) % size), true);
  add("cart", make_cart(parent, random.chance(50)), true);
  add("create", make_create(parent, random), true);
  add("create_group", make_create_group(parent, random), true);
  add("alone", make_split(parent, rank, 0), true);
}

void Communicators::add(std::string name, MPI_Comm communicator, bool owned) {
  Communicator entry;
  entry.name = std::move(name);
  if (communicator != MPI_COMM_NULL) {
    entry.offloaded = communicator;
    entry.native = native_twin(communicator);
    MPI_Comm_rank(communicator, &entry.rank);
    MPI_Comm_size(communicator, &entry.size);
    owned_.push_back(entry.native);
    if (owned) owned_.push_back(communicator);
  }
  all_.push_back(std::move(entry));
}

Communicators::~Communicators() {
  for (MPI_Comm communicator : owned_) MPI_Comm_free(&communicator);
}

}  // namespace differential
