// Which algorithm serves a collective, or that the program's own MPI does: a table. Every rank of a group asks it with
// what all of them know alike, so that all get the same answer without speaking to each other.
//
// What the user asked for comes first, then the built-in table, then the collective's default. In each the first rule
// that fits decides. Constant once made; safe from any thread.
//
// The user's rules as text (OUTRIGGER_ALGORITHM), without blanks:
//   rules      rule{,rule}
//   rule       [calls{:condition}=]choice           without calls: all that have the algorithm
//   calls      ialltoall, ...                       a collective; or
//              alltoall, ...                        its blocking form alone; or
//              all                                  every collective
//   condition  r, n, p, s or b and a range          ranks, nodes, ranks per node, service processes per node, bytes
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

// Where a rank runs: its node, and the service process that serves it, both numbered in any way that is the same for
// all ranks.
struct RankPlace {
  std::uint32_t node = 0;
  std::uint32_t service = 0;
  auto operator<=>(const RankPlace&) const = default;
};

// A group as the table sees it.
struct GroupShape {
  std::uint32_t ranks = 1;
  std::uint32_t nodes = 1;           // with members
  std::uint32_t ranks_per_node = 1;  // members on the node that has most
  std::uint32_t services = 1;        // service processes with members, on the node that has most
  bool operator==(const GroupShape&) const = default;
};

// `places` by world rank. A group whose members are not all there has a node and a service process.
[[nodiscard]] GroupShape shape_of(std::span<const RankPlace> places, std::span<const WorldRank> members);

// Both ends included.
struct Range {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t low = 0;
  std::uint64_t high = kNoEnd;
  [[nodiscard]] constexpr bool contains(std::uint64_t value) const { return low <= value && value <= high; }
  [[nodiscard]] constexpr bool everything() const { return low == 0 && high == kNoEnd; }
  bool operator==(const Range&) const = default;
};

// What a rule may ask of a call: its letter in text, its name in files of rules.
struct ConditionName {
  char letter;
  std::string_view name;
  std::string_view meaning;
};
inline constexpr std::array kConditionNames{
    ConditionName{'r', "ranks", "of the communicator"},
    ConditionName{'n', "nodes", "that have members"},
    ConditionName{'p', "ranks_per_node", "members on the node that has most"},
    ConditionName{'s', "services", "service processes with members, on the node that has most of them"},
    ConditionName{
        'b', "bytes",
        "of a block, of a broadcast's or a reduction's message; only where MPI makes them alike on all ranks"},
};

enum class Verdict : std::uint8_t { native, algorithm, on, automatic };

struct SelectionRule {
  std::optional<Collective> collective;  // nothing: all that have the algorithm, or all
  bool blocking = false;                 // of its blocking form, which other rules do not name
  Range ranks;
  Range nodes;
  Range ranks_per_node;
  Range services;
  Range bytes;  // of a block; of a broadcast and of what is reduced to whole vectors, of the message
  Verdict verdict = Verdict::native;
  std::optional<Algorithm> algorithm;  // where the verdict is one
  [[nodiscard]] bool wants_offload() const { return verdict == Verdict::algorithm || verdict == Verdict::on; }
  bool operator==(const SelectionRule&) const = default;
};

// Blocks of up to so many bytes are small: a service process takes longer over them than the MPI.
inline constexpr std::uint64_t kSmallBlockBytes = 8192;

// Does MPI make the blocks of a call alike on all ranks? Only then may bytes decide.
[[nodiscard]] constexpr bool has_alike_blocks(Collective collective) {
  return is_known(collective) && kCollectives[index_of(collective)].one_size;
}

// What the table says of a call.
struct Decision {
  bool considered = true;              // false: a blocking form that is left to the MPI as most are
  std::optional<Algorithm> algorithm;  // nothing: native
  Algorithm if_offloaded = Algorithm::ring_pull;
  bool by_user = false;  // one of the user's rules decides for good; else the dispatch plan may
  bool operator==(const Decision&) const = default;
};

class SelectionTable {
 public:
  // At the limit the text is refused.
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

  // Of each of the user's rules: empty, or why it is never used.
  [[nodiscard]] std::vector<std::string> hidden() const;

  // Of a call: `block_bytes` where they are alike on all ranks.
  [[nodiscard]] Decision decide(bool blocking, Collective collective, const GroupShape& shape,
                                std::optional<std::uint64_t> block_bytes) const;
  // Does a rule of the user's want calls offloaded?
  [[nodiscard]] bool wants_offload() const;
  // Might some blocking form be, in a job of so many nodes?
  [[nodiscard]] bool may_offload_blocking(std::uint32_t nodes) const;

 private:
  [[nodiscard]] const SelectionRule* users_rule(bool blocking, Collective collective, const GroupShape& shape,
                                                std::optional<std::uint64_t> block_bytes) const;

  std::vector<SelectionRule> rules_;
  Verdict blocking_forms_ = Verdict::automatic;
};

// Is the blocking form of a call offloaded where the user does not say? In the cases of a built-in table, of which a
// measurement has shown that they leave the call sooner (docs/inside/algorithms.md). `block_bytes` where they are alike
// on all ranks. Never on one node.
[[nodiscard]] bool blocking_pays(Collective collective, const GroupShape& shape,
                                 std::optional<std::uint64_t> block_bytes);

// A call's blocking form: `alltoall` of `ialltoall`.
[[nodiscard]] constexpr std::string_view blocking_name_of(Collective collective) {
  return name_of(collective).substr(1);
}

// "ialltoall=ring_pull or scatter_dest; ...": what there is, for messages.
[[nodiscard]] std::string selection_choices();

}  // namespace outrigger
