// Communicators made in every way of MPI, and programs that end with outstanding operations. Each is a mode:
//
//   communicators all       every constructor: collectives of all kinds from every root, freed while all are open;
//                           the communicators have names, by which the report counts them
//   communicators inter     intercommunicators and communicators made of them
//   communicators spawn     starts two more processes, and exchanges data with them
//   communicators session   one from a session's group, beside MPI_Init, and used beyond MPI_Finalize
//   communicators session_alone   the same without MPI_Init
//   communicators freed     frees the requests of operations that others enter late, and calls MPI_Finalize
//   communicators abort     rank 0 calls MPI_Abort, with outstanding operations on all ranks
//   communicators abort_done   the same on a duplicate, after the others have completed theirs and left MPI
//   communicators exit      exits with outstanding operations, without MPI_Finalize

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kBlock = 3000;  // of int
constexpr int kSpawned = 2;   // processes

int rank = 0;
int size = 0;
std::string program;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "communicators: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

int value(int source, int destination, int i) {
  return source * 10'000 + destination * 100 + i % 97;
}

using Block = std::vector<int>;

std::size_t blocks(int count) {
  return static_cast<std::size_t>(count) * kBlock;
}

// Operations between "us" and "them": the members of an intracommunicator, or the two sides of an intercommunicator.
class Operations {
 public:
  explicit Operations(MPI_Comm comm) : comm_(comm) {
    int inter = 0;
    int length = 0;
    name_.resize(MPI_MAX_OBJECT_NAME);
    MPI_Comm_get_name(comm, name_.data(), &length);
    name_.resize(static_cast<std::size_t>(length));
    MPI_Comm_rank(comm, &me_);
    MPI_Comm_size(comm, &us_);
    MPI_Comm_test_inter(comm, &inter);
    them_ = us_;
    if (inter != 0) MPI_Comm_remote_size(comm, &them_);
    post_alltoall();
    post_allgather();
  }

  // From every root of an intracommunicator.
  void post_broadcasts() {
    broadcasts_.resize(static_cast<std::size_t>(us_));
    for (int root = 0; root < us_; ++root) {
      Block& block = broadcasts_[static_cast<std::size_t>(root)];
      block.assign(kBlock, -1);
      if (root == me_) fill(block, me_, 77);
      MPI_Ibcast(block.data(), kBlock, MPI_INT, root, comm_, added());
    }
  }

  // From rank 0 of one side to the other side.
  void post_broadcast_across(bool sender) {
    // All ranks of the sender may have rank 0's data, too.
    broadcasts_.assign(1, Block(kBlock, -1));
    if (sender) fill(broadcasts_[0], 0, 77);
    const int root = !sender ? 0 : me_ == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Ibcast(broadcasts_[0].data(), kBlock, MPI_INT, root, comm_, added());
  }

  void wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (const MPI_Request request : requests_) {
      if (request != MPI_REQUEST_NULL) fail("a request that is complete is not MPI_REQUEST_NULL");
    }
    for (int source = 0; source < them_; ++source) {
      check(exchanged_, source, source, me_);
      check(gathered_, source, source, 55);
    }
    int root = 0;
    for (const Block& block : broadcasts_) check(block, 0, root++, 77);
  }

 private:
  static void fill(Block& block, int source, int destination, int at = 0) {
    for (int i = 0; i < kBlock; ++i) block[blocks(at) + static_cast<std::size_t>(i)] = value(source, destination, i);
  }
  void check(const Block& block, int at, int source, int destination) const {
    for (int i = 0; i < kBlock; ++i) {
      const int got = block[blocks(at) + static_cast<std::size_t>(i)];
      if (got == value(source, destination, i)) continue;
      fail("wrong data on '" + name_ + "' of " + std::to_string(us_) + " ranks: " + std::to_string(got) +
           " instead of " + std::to_string(value(source, destination, i)));
    }
  }
  MPI_Request* added() {
    requests_.push_back(MPI_REQUEST_NULL);
    return &requests_.back();
  }
  void post_alltoall() {
    sent_.resize(blocks(them_));
    exchanged_.assign(blocks(them_), -1);
    for (int destination = 0; destination < them_; ++destination) fill(sent_, me_, destination, destination);
    MPI_Ialltoall(sent_.data(), kBlock, MPI_INT, exchanged_.data(), kBlock, MPI_INT, comm_, added());
  }
  void post_allgather() {
    mine_.resize(kBlock);
    fill(mine_, me_, 55);
    gathered_.assign(blocks(them_), -1);
    MPI_Iallgather(mine_.data(), kBlock, MPI_INT, gathered_.data(), kBlock, MPI_INT, comm_, added());
  }

  MPI_Comm comm_;
  std::string name_;
  int me_ = 0;
  int us_ = 0;
  int them_ = 0;
  std::vector<MPI_Request> requests_;
  Block sent_, exchanged_, mine_, gathered_;
  std::vector<Block> broadcasts_;
};

// Native Open MPI 4.1 hangs if a communicator of one rank is freed early.
void use_and_free(const char* name, MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  MPI_Comm_set_name(comm, name);
  Operations operations(comm);
  operations.post_broadcasts();
  int members = 0;
  MPI_Comm_size(comm, &members);
  if (members > 1) MPI_Comm_free(&comm);
  operations.wait();
  if (members == 1) MPI_Comm_free(&comm);
}

MPI_Group group_of(const std::vector<int>& ranks) {
  MPI_Group everyone, some;
  MPI_Comm_group(MPI_COMM_WORLD, &everyone);
  MPI_Group_incl(everyone, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Group_free(&everyone);
  return some;
}

// Every other rank, the last one first.
std::vector<int> strided_and_reversed() {
  std::vector<int> ranks;
  for (int member = (size - 1) / 2 * 2; member >= 0; member -= 2) ranks.push_back(member);
  return ranks;
}

MPI_Info told(const char* choice) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "outrigger", choice);
  return info;
}

void duplicates() {
  MPI_Comm made;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  use_and_free("dup", made);
  MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
  Operations meanwhile(MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  meanwhile.wait();
  use_and_free("idup", made);
  for (const char* choice : {"on", "off"}) {
    MPI_Info info = told(choice);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
    MPI_Info_free(&info);
    MPI_Comm of_it;
    MPI_Comm_dup(made, &of_it);
    use_and_free((std::string("dup of dup_with_info ") + choice).c_str(), of_it);
    use_and_free((std::string("dup_with_info ") + choice).c_str(), made);
  }
#if MPI_VERSION >= 4
  MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  use_and_free("idup_with_info", made);
#endif
}

void subsets() {
  MPI_Comm made;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &made);
  use_and_free("split", made);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &made);
  use_and_free("split without one", made);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &made);
  use_and_free("split_type", made);
  MPI_Group some = group_of(strided_and_reversed());
  MPI_Comm_create(MPI_COMM_WORLD, some, &made);
  use_and_free("create", made);
  if (rank % 2 == 0) {  // the others do not call it
    MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &made);
    use_and_free("create_group", made);
#if MPI_VERSION >= 4
    MPI_Comm_create_from_group(some, "of communicators.cpp", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    use_and_free("create_from_group", made);
#endif
  }
  MPI_Group_free(&some);
}

void topologies() {
  MPI_Comm made, part;
  const int sizes[2] = {2, size / 2};
  const int periods[2] = {1, 0};
  const int remaining[2] = {0, 1};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 1, &made);
  if (made != MPI_COMM_NULL) {
    MPI_Cart_sub(made, remaining, &part);
    use_and_free("cart_sub", part);
  }
  use_and_free("cart", made);
  std::vector<int> index, edges;  // a ring
  for (int node = 0; node < size; ++node) {
    edges.push_back((node + 1) % size);
    edges.push_back((node + size - 1) % size);
    index.push_back(static_cast<int>(edges.size()));
  }
  MPI_Graph_create(MPI_COMM_WORLD, size, index.data(), edges.data(), 1, &made);
  use_and_free("graph", made);
  const int some = size - 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &some, periods, 0, &made);
  use_and_free("cart without one", made);
  const std::vector<int> one_edge(static_cast<std::size_t>(some), 1);
  const int itself = 0;
  MPI_Graph_create(MPI_COMM_WORLD, some, one_edge.data(), &itself, 0, &made);
  use_and_free("graph without one", made);
  const int next = (rank + 1) % size;
  const int before = (rank + size - 1) % size;
  const int degree = 1;
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  use_and_free("dist_graph", made);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &made);
  use_and_free("dist_graph_adjacent", made);
}

// Between the lower and the upper half.
MPI_Comm between_halves() {
  const bool low = rank < size / 2;
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, low ? 0 : 1, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? size / 2 : 0, 9, &inter);
  MPI_Comm_free(&half);
  return inter;
}

// Half of the ranks have outstanding operations on the parent all the time; the others have completed theirs.
void all_mode() {
  Operations on_parent(MPI_COMM_WORLD);
  on_parent.post_broadcasts();
  if (rank % 2 == 0) on_parent.wait();
  duplicates();
  subsets();
  topologies();
  MPI_Comm inter = between_halves(), merged;
  MPI_Intercomm_merge(inter, rank < size / 2 ? 1 : 0, &merged);
  use_and_free("intercomm_merge", merged);
  MPI_Comm_free(&inter);
  if (rank % 2 == 1) on_parent.wait();
}

// In both directions, with an outstanding operation on the world.
void across(MPI_Comm inter, bool low) {
  Operations world(MPI_COMM_WORLD);
  for (const bool from_low : {true, false}) {
    Operations operations(inter);
    operations.post_broadcast_across(from_low == low);
    operations.wait();
  }
  world.wait();
}

void inter_mode() {
  const bool low = rank < size / 2;
  MPI_Comm inter = between_halves(), copy, part;
  across(inter, low);
  MPI_Comm_dup(inter, &copy);
  across(copy, low);
  MPI_Comm_free(&copy);
  MPI_Comm_split(inter, 0, -rank, &part);
  across(part, low);
  MPI_Comm_free(&part);
  MPI_Comm_free(&inter);
}

void with_spawned(MPI_Comm inter, bool low) {
  across(inter, low);
  MPI_Comm merged;
  MPI_Intercomm_merge(inter, low ? 0 : 1, &merged);
  use_and_free("merged with spawned ones", merged);
  MPI_Comm_disconnect(&inter);
}

void spawn_mode() {
  MPI_Comm parent, inter;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) return with_spawned(parent, false);
  std::string mode = "spawn";
  char* arguments[] = {mode.data(), nullptr};
  MPI_Comm_spawn(program.c_str(), arguments, kSpawned, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
  with_spawned(inter, true);
}

#if MPI_VERSION >= 4
MPI_Session open_session() {
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  return session;
}

MPI_Comm of_session(MPI_Session session, const char* tag) {
  MPI_Group group;
  MPI_Comm made;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
  MPI_Group_free(&group);
  MPI_Comm_set_name(made, tag);
  return made;
}

void all_on(MPI_Comm comm) {
  Operations operations(comm);
  operations.post_broadcasts();
  operations.wait();
}

void session_mode() {
  MPI_Session session = open_session();
  MPI_Comm before = of_session(session, "before MPI_Init");
  all_on(before);
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm beside = of_session(session, "beside MPI_Init");
  all_on(before);
  all_on(beside);
  Operations across_finalize(beside);
  MPI_Finalize();
  across_finalize.wait();
  all_on(beside);
  MPI_Comm_free(&before);
  MPI_Comm_free(&beside);
  MPI_Session_finalize(&session);
}

void session_alone_mode() {
  MPI_Session session = open_session();
  MPI_Comm alone = of_session(session, "without MPI_Init");
  MPI_Comm_rank(alone, &rank);
  use_and_free("without MPI_Init", alone);
  MPI_Session_finalize(&session);
}
#endif

// The last rank enters late; the others have freed the request by then. MPI forbids it, and some MPIs reject it.
void let_go_of(MPI_Request request) {
  const MPI_Request before = request;
  const bool freed = MPI_Request_free(&request) == MPI_SUCCESS;
  if (request != (freed ? MPI_REQUEST_NULL : before)) fail("MPI_Request_free left another handle than it says");
}

void freed_mode() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  static Block send(blocks(size), rank), receive(blocks(size), -1), block(kBlock, rank);
  if (rank == size - 1) usleep(300'000);
  MPI_Request request;
  MPI_Ialltoall(send.data(), kBlock, MPI_INT, receive.data(), kBlock, MPI_INT, MPI_COMM_WORLD, &request);
  let_go_of(request);
  MPI_Ibcast(block.data(), kBlock, MPI_INT, 0, MPI_COMM_WORLD, &request);
  let_go_of(request);
  MPI_Finalize();
  for (int source = 0; source < size; ++source) {
    if (receive[blocks(source)] != source || receive[blocks(source + 1) - 1] != source) fail("wrong data");
  }
  if (block.front() != 0 || block.back() != 0) fail("wrong data of a broadcast");
}

// Never complete: rank 0 does not enter the second operation.
void leave_operations() {
  static Block send(blocks(size), rank), receive(blocks(size), -1);
  static MPI_Request requests[2];
  MPI_Ialltoall(send.data(), kBlock, MPI_INT, receive.data(), kBlock, MPI_INT, MPI_COMM_WORLD, &requests[0]);
  if (rank != 0) MPI_Ibcast(send.data(), kBlock, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
}

void abort_mode() {
  leave_operations();
  if (rank != 0) pause();
  std::printf("communicators: rank 0 calls MPI_Abort\n");
  std::fflush(stdout);
  usleep(100'000);  // MPICH's launcher may drop very recent output
  MPI_Abort(MPI_COMM_WORLD, 5);
}

void abort_done_mode() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Operations operations(comm);
  if (rank != 0) {
    operations.wait();
    pause();
  }
  std::printf("communicators: rank 0 calls MPI_Abort\n");
  std::fflush(stdout);
  usleep(500'000);
  MPI_Abort(comm, 7);
}

void exit_mode() {
  leave_operations();
  std::printf("communicators: rank %d leaves\n", rank);
  std::fflush(stdout);
  std::exit(0);
}

void run_in_world(int argc, char** argv, const std::function<void()>& mode) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  mode();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  const std::string mode = argc > 1 ? argv[1] : "";
#if MPI_VERSION >= 4
  const std::map<std::string, std::function<void()>> without_world = {{"session", session_mode},
                                                                      {"session_alone", session_alone_mode}};
#else
  const std::map<std::string, std::function<void()>> without_world;
#endif
  const std::map<std::string, std::function<void()>> in_world = {
      {"all", all_mode},     {"inter", inter_mode},           {"spawn", spawn_mode}, {"freed", freed_mode},
      {"abort", abort_mode}, {"abort_done", abort_done_mode}, {"exit", exit_mode}};
  if (const auto found = without_world.find(mode); found != without_world.end()) {
    found->second();
  } else if (const auto other = in_world.find(mode); other != in_world.end()) {
    run_in_world(argc, argv, other->second);
  } else {
    std::fprintf(stderr, "communicators: which? See the head of communicators.cpp for the modes.\n");
    return 2;
  }
  if (rank == 0) std::printf("communicators: %s: all right\n", mode.c_str());
  return 0;
}
