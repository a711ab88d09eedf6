#include "mpi/native/hidden_message.hpp"

#include <sched.h>

#include <vector>

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {

struct HiddenMessage::State {
  std::vector<std::byte> bytes;
  MPI_Request request{};
  bool receives = false;
  bool done = false;

  // True if the loaded MPI has the required symbols.
  [[nodiscard]] static bool possible();
  // Return MPI error codes.
  int start_send(int to, Channel channel);
  int start_receive(int from, Channel channel);
  void finish();
  void abandon();
  [[nodiscard]] int count() const { return static_cast<int>(bytes.size()); }
};

#if defined(OUTRIGGER_ABI_OPENMPI)

namespace {

// -1 is MPI_ANY_TAG; Open MPI itself uses tags from -7 down. Some transports have few bits for a tag.
constexpr int kFirstTag = -2;

int tag_of(HiddenMessage::Channel channel) {
  return kFirstTag - channel;
}

// Open MPI rejects negative tags only if argument checks are on; this switches them off.
class WithoutChecks {
 public:
  WithoutChecks() { *checks() = false; }
  WithoutChecks(const WithoutChecks&) = delete;
  WithoutChecks& operator=(const WithoutChecks&) = delete;
  ~WithoutChecks() { *checks() = before_; }

  static bool* checks() {
    static bool* const address = static_cast<bool*>(data_symbol_if_there("ompi_mpi_param_check"));
    return address;
  }

 private:
  bool before_ = *checks();
};

}  // namespace

bool HiddenMessage::State::possible() {
  return WithoutChecks::checks() != nullptr;
}

int HiddenMessage::State::start_send(int to, Channel channel) {
  const WithoutChecks unchecked;
  return real().Isend(bytes.data(), count(), constants().byte, to, tag_of(channel), constants().comm_world, &request);
}

int HiddenMessage::State::start_receive(int from, Channel channel) {
  const WithoutChecks unchecked;
  return real().Irecv(bytes.data(), count(), constants().byte, from, tag_of(channel), constants().comm_world, &request);
}

void HiddenMessage::State::finish() {}

void HiddenMessage::State::abandon() {
  if (!receives) {
    real().Request_free(&request);
    return;
  }
  real().Cancel(&request);
  int ended = 0;
  while (ended == 0) real().Test(&request, &ended, MPI_STATUS_IGNORE);  // a cancelled receive ends at once
}

#else

bool HiddenMessage::State::possible() {
  return real().Psend_init != nullptr && real().Precv_init != nullptr && real().Pready != nullptr;
}

namespace {

// Programs may have their own partitioned messages: these tags are near the highest, counted from the last.
constexpr int kTagFromLast = 4099;
constexpr int kLeastLastTag = 32767;  // guaranteed by MPI

int tag_of(HiddenMessage::Channel channel) {
  int* last = nullptr;
  int found = 0;
  real().Comm_get_attr(constants().comm_world, MPI_TAG_UB, static_cast<void*>(&last), &found);
  return (found != 0 ? *last : kLeastLastTag) - kTagFromLast - channel;
}

}  // namespace

int HiddenMessage::State::start_send(int to, Channel channel) {
  int code = real().Psend_init(bytes.data(), 1, count(), constants().byte, to, tag_of(channel), constants().comm_world,
                               constants().info_null, &request);
  if (code == MPI_SUCCESS) code = real().Start(&request);
  return code == MPI_SUCCESS ? real().Pready(0, request) : code;
}

int HiddenMessage::State::start_receive(int from, Channel channel) {
  const int code = real().Precv_init(bytes.data(), 1, count(), constants().byte, from, tag_of(channel),
                                     constants().comm_world, constants().info_null, &request);
  return code == MPI_SUCCESS ? real().Start(&request) : code;
}

// Such requests are persistent.
void HiddenMessage::State::finish() {
  real().Request_free(&request);
}

// Partitioned requests cannot be cancelled, and MPICH 4.0 crashes if the other side comes after the request has been
// freed.
void HiddenMessage::State::abandon() {}

#endif

HiddenMessage::HiddenMessage(std::unique_ptr<State> state) : state_(std::move(state)) {}
HiddenMessage::HiddenMessage(HiddenMessage&& other) noexcept = default;

HiddenMessage::~HiddenMessage() {
  if (state_ == nullptr || done()) return;
  state_->abandon();
  static_cast<void>(state_.release());  // the MPI may still use the bytes
}

namespace {

// Returns errors while the program's own handler may end the job.
class ErrorsReturn {
 public:
  ErrorsReturn() {
    real().Comm_get_errhandler(constants().comm_world, &before_);
    real().Comm_set_errhandler(constants().comm_world, constants().errors_return);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;
  ~ErrorsReturn() {
    real().Comm_set_errhandler(constants().comm_world, before_);
    real().Errhandler_free(&before_);
  }

 private:
  MPI_Errhandler before_{};
};

}  // namespace

bool HiddenMessage::work(std::chrono::milliseconds limit) {
  if (!State::possible()) return false;
  const ErrorsReturn errors_return;
  int me = 0;
  real().Comm_rank(constants().comm_world, &me);
  auto sent = std::make_unique<State>();
  auto received = std::make_unique<State>();
  sent->bytes.resize(1);
  received->bytes.resize(1);
  received->receives = true;
  if (received->start_receive(me, 0) != MPI_SUCCESS) return false;
  HiddenMessage in(std::move(received));
  if (sent->start_send(me, 0) != MPI_SUCCESS) return false;
  HiddenMessage out(std::move(sent));
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!in.done() || !out.done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    sched_yield();
  }
  return true;
}

HiddenMessage HiddenMessage::send(std::span<const std::byte> bytes, int to, Channel channel) {
  auto state = std::make_unique<State>();
  state->bytes.assign(bytes.begin(), bytes.end());
  static_cast<void>(state->start_send(to, channel));
  return HiddenMessage(std::move(state));
}

HiddenMessage HiddenMessage::receive(std::size_t bytes, int from, Channel channel) {
  auto state = std::make_unique<State>();
  state->bytes.resize(bytes);
  state->receives = true;
  static_cast<void>(state->start_receive(from, channel));
  return HiddenMessage(std::move(state));
}

bool HiddenMessage::done() {
  if (state_->done) return true;
  int ended = 0;
  real().Test(&state_->request, &ended, MPI_STATUS_IGNORE);
  if (ended == 0) return false;
  state_->finish();
  state_->done = true;
  return true;
}

std::span<const std::byte> HiddenMessage::bytes() const {
  return state_->bytes;
}

}  // namespace outrigger::mpi
