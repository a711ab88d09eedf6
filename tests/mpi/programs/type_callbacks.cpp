// Datatypes of the program with attributes and many levels.
//
//   type_callbacks count     callbacks for attributes run when the program duplicates or frees a type, and at no other
//                            time; types are freed while operations use them
//   type_callbacks refuse    the same if the callback rejects every duplicate
//   type_callbacks nested    types that name another type twice, DEPTH levels of them

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kRounds = 5;
constexpr int kLevels = 40;

int rank = 0;
int size = 0;
int copies = 0;
int deletes = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "type_callbacks: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

int count_copy(MPI_Datatype, int, void* refuses, void* value, void* copy, int* flag) {
  ++copies;
  *static_cast<void**>(copy) = value;
  *flag = 1;
  return refuses != nullptr ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int count_delete(MPI_Datatype, int, void*, void*) {
  ++deletes;
  return MPI_SUCCESS;
}

// Every second of `count` integers.
MPI_Datatype with_holes(int count, int keyval) {
  MPI_Datatype type;
  MPI_Type_vector(count, 1, 2, MPI_INT, &type);
  MPI_Datatype resized;
  MPI_Type_create_resized(type, 0, static_cast<MPI_Aint>(2 * count * static_cast<int>(sizeof(int))), &resized);
  MPI_Type_free(&type);
  MPI_Type_set_attr(resized, keyval, &copies);
  MPI_Type_commit(&resized);
  return resized;
}

void expect(int found, int expected, const char* what) {
  if (found != expected) fail(std::to_string(found) + " " + what + ", not " + std::to_string(expected));
}

void check(const std::vector<int>& received, int count, int round) {
  for (std::size_t i = 0; i < received.size(); ++i) {
    const int from = static_cast<int>(i) / (2 * count);
    const int expected = i % 2 == 0 ? 1000 * from + round : -1;
    if (received[i] != expected) fail("wrong number " + std::to_string(received[i]));
  }
}

// A type without holes that is made of one with an attribute. Returns the number of attributes that it had.
int parts(int keyval) {
  constexpr int kNumbers = 6;
  MPI_Datatype part, type;
  MPI_Type_contiguous(2, MPI_INT, &part);
  MPI_Type_set_attr(part, keyval, &copies);
  const int lengths[] = {1, 2};
  const MPI_Aint places[] = {0, 2 * sizeof(int)};
  const MPI_Datatype both[] = {part, part};
  MPI_Type_create_struct(2, lengths, places, both, &type);
  MPI_Type_commit(&type);
  const auto peers = static_cast<std::size_t>(size);
  const std::vector<int> send(kNumbers * peers, rank);
  std::vector<int> received(kNumbers * peers, -1);
  MPI_Request request;
  MPI_Ialltoall(send.data(), 1, type, received.data(), 1, type, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < received.size(); ++i) {
    if (received[i] != static_cast<int>(i) / kNumbers) fail("wrong number");
  }
  MPI_Type_free(&type);
  MPI_Type_free(&part);
  return 1;
}

void attributes(bool refuses) {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Type_create_keyval(&count_copy, &count_delete, &keyval, refuses ? &refuses : nullptr);
  const auto peers = static_cast<std::size_t>(size);
  int made = 0;
  for (const int count : {7, 40'000}) {
    const auto elements = static_cast<std::size_t>(2 * count) * peers;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int> send(static_cast<std::size_t>(count) * peers, 1000 * rank + round);
      std::vector<int> received(elements, -1);
      const auto collect = [&](MPI_Request request, MPI_Datatype* type) {
        if (type != nullptr) MPI_Type_free(type);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check(received, count, round);
        received.assign(elements, -1);
        expect(copies, 0, "copies of attributes");
      };
      MPI_Request request;
      MPI_Datatype type = with_holes(count, keyval);
      MPI_Ialltoall(send.data(), count, MPI_INT, received.data(), 1, type, MPI_COMM_WORLD, &request);
      collect(request, &type);
      expect(deletes, ++made, "deleted attributes");
      const std::vector<int> counts(peers, count), ones(peers, 1);
      std::vector<int> send_at, receive_at;
      for (int i = 0; i < size; ++i) {
        send_at.push_back(i * count * static_cast<int>(sizeof(int)));
        receive_at.push_back(2 * send_at.back());
      }
      type = with_holes(count, keyval);
      const std::vector<MPI_Datatype> sent(peers, MPI_INT), types(peers, type);
      MPI_Ialltoallw(send.data(), counts.data(), send_at.data(), sent.data(), received.data(), ones.data(),
                     receive_at.data(), types.data(), MPI_COMM_WORLD, &request);
      collect(request, &type);
      expect(deletes, ++made, "deleted attributes");
      type = with_holes(count, keyval);
      MPI_Iallgather(send.data(), count, MPI_INT, received.data(), 1, type, MPI_COMM_WORLD, &request);
      collect(request, &type);
      // A copy of the first result, sent with holes.
      expect(deletes, ++made, "deleted attributes");
      type = with_holes(count, keyval);
      std::vector<int> spread(elements, -2);
      for (std::size_t i = 0; i < elements; i += 2) spread[i] = 1000 * rank + round;
      MPI_Ialltoall(spread.data(), 1, type, received.data(), 1, type, MPI_COMM_WORLD, &request);
      collect(request, &type);
      expect(deletes, ++made, "deleted attributes");
    }
  }
  made += parts(keyval);
  expect(copies, 0, "copies of attributes");
  expect(deletes, made, "deleted attributes");
  MPI_Datatype type = with_holes(3, keyval);
  MPI_Datatype duplicate = MPI_DATATYPE_NULL;
  MPI_Type_set_attr(type, keyval, &copies);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if ((MPI_Type_dup(type, &duplicate) != MPI_SUCCESS) != refuses) fail("MPI_Type_dup went otherwise");
  expect(copies, 1, "copies of attributes");
  if (!refuses) MPI_Type_free(&duplicate);
  MPI_Type_free(&type);
  MPI_Type_free_keyval(&keyval);
}

// Each level names the one below it twice, once for no elements: following each name would take 2^40 steps.
void nested() {
  MPI_Datatype type;
  MPI_Type_contiguous(3, MPI_INT, &type);
  const int lengths[] = {1, 0};
  const MPI_Aint places[] = {0, 12};
  for (int level = 0; level < kLevels; ++level) {
    const MPI_Datatype below[] = {type, type};
    MPI_Datatype made;
    MPI_Type_create_struct(2, lengths, places, below, &made);
    MPI_Type_free(&type);
    type = made;
  }
  MPI_Type_commit(&type);
  const auto peers = static_cast<std::size_t>(size);
  std::vector<int> send(3 * peers, rank), received(3 * peers, -1);
  MPI_Request request;
  MPI_Ialltoall(send.data(), 1, type, received.data(), 1, type, MPI_COMM_WORLD, &request);
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < received.size(); ++i) {
    if (received[i] != static_cast<int>(i) / 3) fail("wrong number");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (mode == "nested") {
    nested();
  } else if (mode == "count" || mode == "refuse") {
    attributes(mode == "refuse");
  } else {
    fail("which? See the head of type_callbacks.cpp for the modes.");
  }
  if (rank == 0) std::printf("type_callbacks: all right\n");
  MPI_Finalize();
  return 0;
}
