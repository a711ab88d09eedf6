// Programs for the model against arbitrary text and against nearly valid files. Accepted programs must be consistent.
// Rejected ones must give a reason.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sim/timing/script.hpp"

namespace {

using namespace outrigger::sim::timing;

void check_communicator(const Communicator& communicator, std::uint32_t ranks) {
  if (communicator.group_of.size() != ranks || communicator.neighbors.size() != ranks) std::abort();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto& group = *communicator.groups.at(communicator.group_of[rank]);
    if (group.at(communicator.place_of[rank]).value() != rank) std::abort();
    for (const outrigger::GroupRank neighbor : communicator.neighbors[rank]) {
      if (neighbor.value() >= group.size()) std::abort();
    }
  }
}

void check(const std::string& text) {
  const outrigger::Result<Script> script = parse_script(text, "f.json");
  if (!script) {
    if (script.error().empty()) std::abort();
    return;
  }
  const Script& read = script.value();
  if (read.ranks < 2 || read.steps.empty() || read.blocking.size() != read.workload.calls.size()) std::abort();
  for (const Communicator& communicator : read.workload.communicators) check_communicator(communicator, read.ranks);
  for (const Call& call : read.workload.calls) {
    if (call.communicator >= read.workload.communicators.size()) std::abort();
    for (const auto& group : read.workload.communicators[call.communicator].groups) {
      if (call.root >= group->size()) std::abort();
    }
  }
  for (const Step& step : read.steps) {
    if (const Post* const post = std::get_if<Post>(&step)) {
      if (post->call >= read.workload.calls.size() || post->request >= read.requests) std::abort();
    }
  }
}

const std::string kGood = R"({"outrigger_program": 1, "ranks": 4, "repeat": 2, "work_of_rank": [1, 1, 1.5, 1],
"communicators": {"rows": {"groups": [[0, 1], [2, 3]], "neighbors": [[1], [0], [1], [0]]}},
"steps": [{"work_us": 10.5}, {"post": "ialltoallv", "bytes": [0, 64], "communicator": "rows", "request": "a"},
{"call": "ibcast", "bytes": 8, "root": 1}, {"post": "ineighbor_alltoall", "bytes": 64, "communicator": "rows",
"request": "b"}, {"wait": ["a", "b"]}]})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);  // NOLINT: bytes as text
  check(text);
  if (size < 3) return 0;
  std::string nearly = kGood;
  nearly.replace((std::size_t{data[0]} | std::size_t{data[1]} << 8U) % nearly.size(), data[2] % 8, text.substr(3));
  check(nearly);
  return 0;
}
