// Selects the algorithm of a collective, or native. All ranks of a group call it with the same values, so they get the
// same answer without communication.
//
// The user's rules come first, then the built-in table, then the collective's default. In each the first matching rule
// decides. Constant once made; safe from any thread.
//
// The user's rules as text (OUTRIGGER_ALGORITHM), without blanks:
//   rules      rule{,rule}
//   rule       [calls{:condition}=]choice           without calls: all collectives with the algorithm
//   calls      ialltoall, ...                       a collective; or
//              alltoall, ...                        its blocking form alone; or
//              all                                  every collective
//   condition  r, n, p, s, b or w and a range       ranks, nodes, ranks per node, service processes per node, bytes,
//                                                   bytes times the ranks on other nodes than rank 0
//   range      N or LOW- or LOW-HIGH or -HIGH       decimal, both ends included; bytes with K, M or G, if need be
//   choice     the name of an algorithm; native; on    always; of blocking forms: as the nonblocking form;
//              or auto                              as if no rule fitted; of blocking forms: so where that pays
// For example iallgather:n2-:p2-:b64K-=node_pull,all:b-4K=native
//
// Small blocks are native where the built-in table decides, as far as they are alike on all ranks. A communicator's
// dispatch plan (steer/plan/dispatch_plan.hpp) may make other calls native for a while, but none that a rule of the
// user's offloads.
//
// A blocking form is offloaded as its rules say, else as OUTRIGGER_BLOCKING says, and then by the algorithm of its
// nonblocking form, unless its own rule names one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "protocol/collective.hpp"
#include "protocol/ids.hpp"

namespace outrigger {

// A rank's node and service process, both numbered in any way that is the same for all ranks.
struct RankPlace {
  std::uint32_t node = 0;
  std::uint32_t service = 0;
  auto operator<=>(const RankPlace&) const = default;
};

// Between nodes, network cards move memory (RDMA), or processors carry the bytes (TCP).
enum class Wire : std::uint8_t { memory, processor };

// A group as the table sees it.
struct GroupShape {
  std::uint32_t ranks = 1;
  std::uint32_t nodes = 1;           // nodes with members
  std::uint32_t ranks_per_node = 1;  // most members on one node
  std::uint32_t services = 1;        // most service processes with members on one node
  std::uint32_t far_ranks = 0;       // members on other nodes than the first member
  Wire wire = Wire::memory;
  bool operator==(const GroupShape&) const = default;
};

// `places` by world rank. A group with unknown members counts as one node with one service process.
[[nodiscard]] GroupShape shape_of(std::span<const RankPlace> places, std::span<const WorldRank> members, Wire wire);

// Both ends included.
struct Range {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t low = 0;
  std::uint64_t high = kNoEnd;
  [[nodiscard]] constexpr bool contains(std::uint64_t value) const { return low <= value && value <= high; }
  [[nodiscard]] constexpr bool everything() const { return low == 0 && high == kNoEnd; }
  bool operator==(const Range&) const = default;
};

// A condition of a rule: its letter in text, its name in files of rules.
struct ConditionName {
  char letter;
  std::string_view name;
  std::string_view meaning;
};
inline constexpr std::array kConditionNames{
    ConditionName{'r', "ranks", "of the communicator"},
    ConditionName{'n', "nodes", "that have members"},
    ConditionName{'p', "ranks_per_node", "most members on one node"},
    ConditionName{'s', "services", "most service processes with members on one node"},
    ConditionName{
        'b', "bytes",
        "of a block, of a broadcast's or a reduction's message; only where MPI makes them alike on all ranks"},
    ConditionName{'w', "wire_bytes", "bytes times the ranks on other nodes than rank 0"},
};

enum class Verdict : std::uint8_t { native, algorithm, on, automatic };

struct SelectionRule {
  std::optional<Collective> collective;  // nothing: all that have the algorithm, or all
  bool blocking = false;                 // of its blocking form, which other rules do not name
  Range ranks;
  Range nodes;
  Range ranks_per_node;
  Range services;
  Range bytes;               // of a block; of the message for broadcasts and whole-vector reductions
  Range wire_bytes;          // these times `far_ranks`
  std::optional<Wire> wire;  // only in the built-in table
  Verdict verdict = Verdict::native;
  std::optional<Algorithm> algorithm;  // if the verdict is an algorithm
  [[nodiscard]] bool wants_offload() const { return verdict == Verdict::algorithm || verdict == Verdict::on; }
  bool operator==(const SelectionRule&) const = default;
};

// Blocks up to this size are small: a service process is slower than the MPI.
inline constexpr std::uint64_t kSmallBlockBytes = 8192;

// True if MPI makes the blocks of a call alike on all ranks. Only then may rules use bytes.
[[nodiscard]] constexpr bool has_alike_blocks(Collective collective) {
  return is_known(collective) && kCollectives[index_of(collective)].one_size;
}

// The table's answer for a call.
struct Decision {
  bool considered = true;              // false: a blocking form that is left to the MPI by default
  std::optional<Algorithm> algorithm;  // nullopt: native
  Algorithm if_offloaded = Algorithm::ring_pull;
  bool by_user = false;  // one of the user's rules decides for good; else the dispatch plan may
  bool operator==(const Decision&) const = default;
};

class SelectionTable {
 public:
  // More rules are an error.
  static constexpr std::size_t kMaxRules = 256;

  // The built-in table alone.
  SelectionTable() = default;

  // With the rules of the text in front; an error names the rule and what is wrong. Empty: none. `blocking`: whether
  // the blocking forms that no rule names are offloaded; nothing: where that pays.
  [[nodiscard]] static Result<SelectionTable> decode(std::string_view text,
                                                     std::optional<bool> blocking = std::nullopt);
  // The user's rules as decode() reads them: the same text for the same rules.
  [[nodiscard]] std::string encode() const;

  // Blocking forms without a rule are `on`, `native` or `automatic`.
  [[nodiscard]] Verdict blocking_forms() const { return blocking_forms_; }

  // For each of the user's rules: empty, or the reason why it is never used.
  [[nodiscard]] std::vector<std::string> hidden() const;

  // `block_bytes`: set if the blocks are alike on all ranks.
  [[nodiscard]] Decision decide(bool blocking, Collective collective, const GroupShape& shape,
                                std::optional<std::uint64_t> block_bytes) const;
  // True if a user's rule offloads calls.
  [[nodiscard]] bool wants_offload() const;
  // True if a blocking form may be offloaded in a job with this many nodes.
  [[nodiscard]] bool may_offload_blocking(std::uint32_t nodes) const;

 private:
  [[nodiscard]] const SelectionRule* users_rule(bool blocking, Collective collective, const GroupShape& shape,
                                                std::optional<std::uint64_t> block_bytes) const;

  std::vector<SelectionRule> rules_;
  Verdict blocking_forms_ = Verdict::automatic;
};

// True if a blocking form is offloaded by default: the cases in which measurements show that ranks leave the call
// sooner (docs/inside/algorithms.md). Never on one node. `block_bytes`: set if the blocks are alike on all ranks.
[[nodiscard]] bool blocking_pays(Collective collective, const GroupShape& shape,
                                 std::optional<std::uint64_t> block_bytes);

// Name of the blocking form: `alltoall` for `ialltoall`.
[[nodiscard]] constexpr std::string_view blocking_name_of(Collective collective) {
  return name_of(collective).substr(1);
}

// "ialltoall=ring_pull or scatter_dest; ...": all choices, for messages.
[[nodiscard]] std::string selection_choices();

}  // namespace outrigger
