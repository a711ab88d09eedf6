// Random blocking collectives, by the MPI's own functions and by those that the program is linked with, must leave the
// same bytes in all memory. On several communicators, of several threads, each with communicators of its own.
//
//     intranode [--seed N] [--operations N] [--threads N] [--duplicates N]
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "native_functions.hpp"

namespace {

using Random = std::mt19937_64;
int below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
}

struct Types {
  MPI_Datatype vector{};    // with holes
  MPI_Datatype spread{};    // one int, and room for two more behind it
  MPI_Datatype backward{};  // two chars, the second before the first
  Types() {
    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Type_create_resized(MPI_INT, 0, 12, &spread);
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {5, 2};
    MPI_Type_create_hindexed(2, lengths, places, MPI_CHAR, &backward);
    for (MPI_Datatype* type : {&vector, &spread, &backward}) MPI_Type_commit(type);
  }
  ~Types() {
    for (MPI_Datatype* type : {&vector, &spread, &backward}) MPI_Type_free(type);
  }
};

struct Kind {
  MPI_Datatype type;
  int size;
  MPI_Aint extent;
  MPI_Aint span;  // of one
};

Kind kind_of(MPI_Datatype type) {
  Kind kind{type, 0, 0, 0};
  MPI_Aint low = 0;
  MPI_Type_size(type, &kind.size);
  MPI_Type_get_extent(type, &low, &kind.extent);
  MPI_Aint true_low = 0;
  MPI_Aint true_extent = 0;
  MPI_Type_get_true_extent(type, &true_low, &true_extent);
  kind.span = true_low + true_extent;
  return kind;
}

// Alike on all ranks but for what `mine` gives.
class Calls {
 public:
  Calls(MPI_Comm comm, MPI_Comm twin, std::uint64_t seed) : comm_(comm), twin_(twin), random_(seed) {
    MPI_Comm_rank(comm, &me_);
    MPI_Comm_size(comm, &size_);
  }
  // False: something is different.
  bool one() {
    const int call = below(random_, 17);
    const std::uint64_t choices = random_();
    const std::vector<unsigned char> expected = run_alike(call, choices, true);
    // The library looks less closely at a call that is like the last one.
    for (int time = 0; time < 2; ++time) {
      if (!is_same(call, expected, run_alike(call, choices, false))) return false;
    }
    return true;
  }

 private:
  std::vector<unsigned char> run_alike(int call, std::uint64_t choices, bool native) {
    Random random(choices);
    return run(call, random, native);
  }
  [[nodiscard]] bool is_same(int call, const std::vector<unsigned char>& expected,
                             const std::vector<unsigned char>& result) const {
    if (result == expected) return true;
    std::size_t at = 0;
    while (result[at] == expected[at]) ++at;
    std::printf("rank %d of %d: call %d (%s): byte %zu of %zu is %d, natively %d\n", me_, size_, call, what_.c_str(),
                at, expected.size(), result[at], expected[at]);
    return false;
  }
  int count(Random& random) {
    switch (below(random, 8)) {
      case 0: return 0;
      case 1: return 1;
      case 2: return below(random, 40'000);
      case 3: return 3000 + below(random, 3000);
      default: return below(random, 300);
    }
  }
  Kind pick(Random& random) {
    switch (below(random, 8)) {
      case 0: return kind_of(types_.vector);
      case 1: return kind_of(types_.spread);
      case 2: return kind_of(types_.backward);
      case 3: return kind_of(MPI_CHAR);
      case 4: return kind_of(MPI_DOUBLE);
      default: return kind_of(MPI_INT);
    }
  }
  // Another type of the same signature and equal extent, or a multiple of it.
  static std::size_t room(const Kind& kind, std::int64_t elements) {
    return static_cast<std::size_t>(elements * kind.extent + kind.span + 64);
  }
  std::vector<unsigned char> filled(std::size_t bytes, std::uint64_t salt) {
    std::vector<unsigned char> memory(bytes);
    Random mine(salt * 131 + static_cast<std::uint64_t>(me_));
    for (unsigned char& byte : memory) byte = static_cast<unsigned char>(mine());
    return memory;
  }

  struct Reduced {
    MPI_Datatype type;
    MPI_Op op;
    std::string name;
  };
  Reduced pick_reduced(Random& random) {
    const MPI_Datatype types[] = {MPI_INT, MPI_UNSIGNED_CHAR, MPI_LONG_LONG, MPI_SHORT, MPI_UNSIGNED, MPI_DOUBLE};
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR};
    const int type = below(random, 6);
    const int op = types[type] == MPI_DOUBLE ? 0 : below(random, 9);
    return {types[type], ops[op], std::to_string(op) + " of type " + std::to_string(type)};
  }

  std::vector<unsigned char> run(int call, Random& random, bool native) {
    const MPI_Comm comm = native ? twin_ : comm_;
    const int root = below(random, size_);
    const bool in_place = below(random, 3) == 0;
    const int elements = count(random);
    const Kind kind = pick(random);
    const std::uint64_t salt = random();
    // Lists for the irregular forms: what i has for j.
    std::vector<std::vector<int>> pairs(static_cast<std::size_t>(size_),
                                        std::vector<int>(static_cast<std::size_t>(size_)));
    for (auto& row : pairs) {
      for (int& pair : row) pair = below(random, 4) == 0 ? 0 : below(random, std::max(2, std::min(elements, 12'000)));
    }
    const Reduced reduced = pick_reduced(random);
    const auto all = static_cast<std::int64_t>(elements) * size_;
    what_ = "root " + std::to_string(root) + (in_place ? ", in place, " : ", ") + std::to_string(elements) +
            " elements of " + std::to_string(kind.size) + " bytes, reduction " + reduced.name;
    const bool at_root = me_ == root;
    switch (call) {
      case 0: {
        CALL(Barrier, comm);
        return {};
      }
      case 1: {
        auto buffer = filled(room(kind, elements), salt);
        CALL(Bcast, buffer.data(), elements, kind.type, root, comm);
        return buffer;
      }
      case 2: {
        auto send = filled(room(kind, elements), salt);
        auto receive = filled(room(kind, all), salt + 1);
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        CALL(Allgather, from, elements, kind.type, receive.data(), elements, kind.type, comm);
        return receive;
      }
      case 3:
      case 4:
      case 5: return irregular(call, random, native, comm, root, in_place, kind, salt, pairs);
      case 6: {
        auto send = filled(room(kind, all), salt);
        auto receive = filled(room(kind, all), salt + 1);
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        CALL(Alltoall, from, elements, kind.type, receive.data(), elements, kind.type, comm);
        return receive;
      }
      case 7: {
        auto send = filled(room(kind, elements), salt);
        auto receive = filled(at_root ? room(kind, all) : 0, salt + 1);
        const void* from = in_place && at_root ? MPI_IN_PLACE : send.data();
        CALL(Gather, from, elements, kind.type, receive.data(), elements, kind.type, root, comm);
        return receive;
      }
      case 8: {
        auto send = filled(at_root ? room(kind, all) : 0, salt);
        auto receive = filled(room(kind, elements), salt + 1);
        void* into = in_place && at_root ? MPI_IN_PLACE : receive.data();
        CALL(Scatter, send.data(), elements, kind.type, into, elements, kind.type, root, comm);
        return receive;
      }
      case 9: return irregular(call, random, native, comm, root, in_place, kind, salt, pairs);
      case 16: return typed(native, comm, in_place, salt, pairs);
      default: return reduce(call, native, comm, root, in_place, reduced, elements, salt, pairs);
    }
  }

  std::vector<unsigned char> irregular(int call, Random& random, bool native, MPI_Comm comm, int root, bool in_place,
                                       const Kind& kind, std::uint64_t salt,
                                       const std::vector<std::vector<int>>& pairs) {
    const auto members = static_cast<std::size_t>(size_);
    const auto me = static_cast<std::size_t>(me_);
    const bool at_root = me_ == root;
    std::vector<int> sent(members);
    std::vector<int> received(members);
    for (std::size_t i = 0; i < members; ++i) {
      sent[i] = call == 3 ? pairs[me][i] : pairs[0][i];
      received[i] = call == 3 ? pairs[i][me] : pairs[0][i];
      if (call == 3 && in_place) received[i] = pairs[std::min(i, me)][std::max(i, me)];
    }
    const int gap = below(random, 3);
    const auto places = [&](const std::vector<int>& counts) {  // from the last to the first
      std::vector<int> found(members);
      int next = 0;
      for (std::size_t i = members; i-- > 0; next += counts[i] + gap) found[i] = next;
      return found;
    };
    const auto total = [&](const std::vector<int>& counts) {
      std::int64_t sum = 0;
      for (const int one : counts) sum += one + gap;
      return sum;
    };
    const std::vector<int> send_places = places(sent);
    const std::vector<int> receive_places = places(received);
    const int own = pairs[0][me];
    if (call == 3) {
      auto send = filled(room(kind, total(sent)), salt);
      auto receive = filled(room(kind, total(received)), salt + 1);
      const void* from = in_place ? MPI_IN_PLACE : send.data();
      CALL(Alltoallv, from, sent.data(), send_places.data(), kind.type, receive.data(), received.data(),
           receive_places.data(), kind.type, comm);
      return receive;
    }
    if (call == 9) {
      auto send = filled(at_root ? room(kind, total(sent)) : 0, salt);
      auto receive = filled(room(kind, own), salt + 1);
      void* into = in_place && at_root ? MPI_IN_PLACE : receive.data();
      CALL(Scatterv, send.data(), sent.data(), send_places.data(), kind.type, into, own, kind.type, root, comm);
      return receive;
    }
    auto send = filled(room(kind, own), salt);
    auto receive = filled(room(kind, total(received)), salt + 1);
    if (call == 4) {
      const void* from = in_place ? MPI_IN_PLACE : send.data();
      CALL(Allgatherv, from, own, kind.type, receive.data(), received.data(), receive_places.data(), kind.type, comm);
    } else {
      const void* from = in_place && at_root ? MPI_IN_PLACE : send.data();
      CALL(Gatherv, from, own, kind.type, receive.data(), received.data(), receive_places.data(), kind.type, root,
           comm);
    }
    return receive;
  }

  // Each pair has a type of its own.
  std::vector<unsigned char> typed(bool native, MPI_Comm comm, bool in_place, std::uint64_t salt,
                                   const std::vector<std::vector<int>>& pairs) {
    const auto members = static_cast<std::size_t>(size_);
    const auto me = static_cast<std::size_t>(me_);
    const MPI_Datatype some[] = {MPI_INT, types_.vector, types_.spread, types_.backward, MPI_DOUBLE};
    std::vector<MPI_Datatype> types;
    std::vector<int> sent;
    std::vector<int> received;
    std::vector<int> send_places;
    std::vector<int> receive_places;
    std::size_t out = 0;
    std::size_t in = 0;
    for (std::size_t i = 0; i < members; ++i) {
      types.push_back(some[(i + me) % 5]);
      sent.push_back(in_place ? pairs[std::min(i, me)][std::max(i, me)] : pairs[me][i]);
      received.push_back(in_place ? sent[i] : pairs[i][me]);
      send_places.push_back(static_cast<int>(out));
      receive_places.push_back(static_cast<int>(in));
      out += room(kind_of(types[i]), sent[i]);
      in += room(kind_of(types[i]), received[i]);
    }
    auto send = filled(out, salt);
    auto receive = filled(in, salt + 1);
    const void* from = in_place ? MPI_IN_PLACE : send.data();
    CALL(Alltoallw, from, sent.data(), send_places.data(), types.data(), receive.data(), received.data(),
         receive_places.data(), types.data(), comm);
    return receive;
  }

  std::vector<unsigned char> reduce(int call, bool native, MPI_Comm comm, int root, bool in_place,
                                    const Reduced& reduced, int elements, std::uint64_t salt,
                                    const std::vector<std::vector<int>>& pairs) {
    const Kind kind = kind_of(reduced.type);
    const auto bytes = [&](std::int64_t counted) { return static_cast<std::size_t>(counted * kind.size); };
    const bool at_root = me_ == root;
    // Floating-point numbers are small integers, so that sums are exact.
    const auto vector = [&](std::int64_t counted, std::uint64_t seed) {
      auto memory = filled(bytes(counted), seed);
      if (reduced.type == MPI_DOUBLE) {
        for (std::int64_t i = 0; i < counted; ++i) {
          const double number = memory[static_cast<std::size_t>(i) * 8];
          std::memcpy(&memory[static_cast<std::size_t>(i) * 8], &number, 8);
        }
      }
      return memory;
    };
    const auto cut = [&](std::vector<unsigned char> memory, std::int64_t counted) {
      memory.resize(bytes(counted));  // what is behind the result in place is not defined
      return memory;
    };
    switch (call) {
      case 10: {
        in_place = in_place && root == 0;  // MPICH 4.0 crashes where long vectors have another root
        auto send = vector(elements, salt);
        auto receive = in_place && at_root ? send : vector(elements, salt + 1);
        const void* from = in_place && at_root ? MPI_IN_PLACE : send.data();
        CALL(Reduce, from, receive.data(), elements, reduced.type, reduced.op, root, comm);
        return at_root ? receive : std::vector<unsigned char>{};
      }
      case 11: {
        const int each = elements % 4000;
        auto send = vector(static_cast<std::int64_t>(each) * size_, salt);
        auto receive = in_place ? send : vector(each, salt + 1);
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        CALL(Reduce_scatter_block, from, receive.data(), each, reduced.type, reduced.op, comm);
        return cut(receive, each);
      }
      case 12: {
        const std::vector<int>& counts = pairs[0];
        std::int64_t total = 0;
        for (const int one : counts) total += one;
        const int own = counts[static_cast<std::size_t>(me_)];
        auto send = vector(total, salt);
        auto receive = in_place ? send : vector(own, salt + 1);
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        CALL(Reduce_scatter, from, receive.data(), counts.data(), reduced.type, reduced.op, comm);
        return cut(receive, own);
      }
      case 13:
      case 14: {
        auto send = vector(elements, salt);
        auto receive = in_place ? send : vector(elements, salt + 1);
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        if (call == 13) {
          CALL(Scan, from, receive.data(), elements, reduced.type, reduced.op, comm);
        } else {
          CALL(Exscan, from, receive.data(), elements, reduced.type, reduced.op, comm);
        }
        return call == 14 && me_ == 0 ? std::vector<unsigned char>{} : receive;
      }
      default: {
        auto send = vector(elements, salt);
        auto receive = in_place ? send : vector(elements, salt + 1);
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        CALL(Allreduce, from, receive.data(), elements, reduced.type, reduced.op, comm);
        return receive;
      }
    }
  }

  MPI_Comm comm_;
  MPI_Comm twin_;
  std::string what_;  // for people: arguments of the last call
  Random random_;
  int me_ = 0;
  int size_ = 0;
  Types types_;
};

struct Options {
  std::uint64_t seed = 1;
  int operations = 400;
  int threads = 1;
  int duplicates = 0;
};

Options read(int count, char** words) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const long value = std::atol(words[i + 1]);
    if (name == "--seed") options.seed = static_cast<std::uint64_t>(value);
    if (name == "--operations") options.operations = static_cast<int>(value);
    if (name == "--threads") options.threads = static_cast<int>(value);
    if (name == "--duplicates") options.duplicates = static_cast<int>(value);
  }
  return options;
}

// A communicator and its twin, for the MPI's own calls.
struct Pair {
  MPI_Comm comm;
  MPI_Comm twin;
};

bool run_thread(const Options& options, const std::vector<Pair>& pairs, int thread) {
  Random which(options.seed * 7 + static_cast<std::uint64_t>(thread));
  std::vector<Calls> calls;
  calls.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    if (pair.comm != MPI_COMM_NULL) calls.emplace_back(pair.comm, pair.twin, which());
  }
  bool same = true;
  for (int i = 0; i < options.operations; ++i) {
    same = calls[which() % calls.size()].one() && same;
  }
  return same;
}

// Communicators come and go.
bool run_duplicates(const Options& options) {
  bool same = true;
  for (int i = 0; i < options.duplicates; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Calls calls(comm, MPI_COMM_WORLD, options.seed + static_cast<std::uint64_t>(i));
    for (int k = 0; k < 10; ++k) same = calls.one() && same;
    MPI_Comm_free(&comm);
  }
  return same;
}

}  // namespace

int main(int count, char** words) {
  const Options options = read(count, words);
  int provided = 0;
  MPI_Init_thread(&count, &words, options.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (options.threads > 1 && provided < MPI_THREAD_MULTIPLE) {
    std::printf("no difference: this MPI has no threads\n");
    MPI_Finalize();
    return 0;
  }
  int me = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<std::vector<Pair>> pairs(static_cast<std::size_t>(options.threads));
  for (int thread = 0; thread < options.threads; ++thread) {
    MPI_Comm whole;
    MPI_Comm_dup(MPI_COMM_WORLD, &whole);
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - me, &reversed);
    MPI_Comm cyclic;  // ranks of a node are not neighbors
    MPI_Comm_split(MPI_COMM_WORLD, 0, me % 2 * size + me, &cyclic);
    for (const MPI_Comm comm : {thread == 0 ? MPI_COMM_WORLD : whole, reversed, cyclic}) {
      MPI_Comm twin;
      MPI_Comm_dup(comm, &twin);
      pairs[static_cast<std::size_t>(thread)].push_back({comm, twin});
    }
  }
  std::vector<std::thread> threads;
  std::vector<char> same(static_cast<std::size_t>(options.threads), 1);
  for (int thread = 1; thread < options.threads; ++thread) {
    const auto place = static_cast<std::size_t>(thread);
    threads.emplace_back([&, place, thread] { same[place] = run_thread(options, pairs[place], thread) ? 1 : 0; });
  }
  same[0] = run_thread(options, pairs[0], 0) ? 1 : 0;
  for (std::thread& thread : threads) thread.join();
  if (!run_duplicates(options)) same[0] = 0;
  const bool all_same = std::all_of(same.begin(), same.end(), [](char one) { return one != 0; });
  if (!all_same) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 0) std::printf("no difference\n");
  MPI_Finalize();
  return 0;
}
