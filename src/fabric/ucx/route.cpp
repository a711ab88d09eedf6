#include "fabric/ucx/route.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "base/unique_fd.hpp"

namespace outrigger::fabric::ucx {
namespace {

class Nothing final : public WorkerEvents {
  ucs_status_t arrived(std::span<const std::byte> /*header*/, void* /*data*/, std::size_t /*bytes*/,
                       bool /*rendezvous*/) override {
    return UCS_OK;
  }
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

struct Answer {
  WireRoute route;
  std::array<char, 256> error{};  // empty: no error
};
static_assert(std::is_trivially_copyable_v<Answer>);  // travels through a pipe in one piece

Answer failed(const std::string& error) {
  Answer answer;
  error.copy(answer.error.data(), answer.error.size() - 1);
  return answer;
}

Answer probe(const std::string& transports) {
  static Nothing nothing;
  static bool broken = false;
  static Result<Context> context = Context::open(transports);
  if (!context) return failed(context.error());
  static Result<Worker> worker = Worker::open(context.value(), nothing);
  if (!worker) return failed(worker.error());
  static Result<Endpoint> endpoint = Endpoint::open(worker.value(), worker.value().address(), broken);
  if (!endpoint) return failed(endpoint.error());
  Lanes lanes = endpoint.value().lanes();
  // This process cannot tell which device leads to other machines.
  std::ranges::replace(lanes.messages, "tcp/lo", "tcp");
  return Answer{route_over(lanes), {}};
}

}  // namespace

WireRoute route_over(const Lanes& lanes) {
  const bool moves_memory = !lanes.memory.empty();
  return make_wire_route(moves_memory, joined(moves_memory ? lanes.memory : lanes.messages));
}

// Runs in a child process that ends without closing anything: UCX 1.13 aborts if it is closed while a connection is
// being made.
Result<WireRoute> probe_route(const std::string& transports) {
  constexpr auto kBytes = static_cast<ssize_t>(sizeof(Answer));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{"cannot create a pipe to a UCX child process"};
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const Answer answer = probe(transports);
    ::_exit(::write(write_end.get(), &answer, sizeof(answer)) == kBytes ? 0 : 1);
  }
  write_end.reset();
  Answer answer;
  const bool answered = child > 0 && ::read(read_end.get(), &answer, sizeof(answer)) == kBytes;
  if (child > 0) (void)::waitpid(child, nullptr, 0);
  if (!answered) return Error{"the UCX child process ended without listing transports"};
  if (answer.error[0] != '\0') return Error{answer.error.data()};
  return answer.route;
}

}  // namespace outrigger::fabric::ucx
