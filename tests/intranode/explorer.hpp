// Runs the members of a team as fibers of one thread and chooses the order of their steps on flags. Each choice comes
// from a source: random ones from a seed, or all there are, one run after the other.
//
// The memory is weaker than x86's and like C++'s. A store waits in its member's buffer until the explorer lets it out,
// in order. Memory that is not a flag must be ordered by flags: vector clocks (as of relacy and thread sanitizers) tell
// whether a read and a write of the same byte are. So a race is found in any run that has both accesses, in whichever
// order.
//
// A mutation drops one place in the code that raises or waits for a flag, or takes its order away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace outrigger::intranode {

class Choices {
 public:
  virtual ~Choices() = default;
  // One of `options`, at least two.
  [[nodiscard]] virtual std::size_t pick(std::size_t options) = 0;
  // Before a run of `members`: is there another one?
  [[nodiscard]] virtual bool next_run(std::size_t members) = 0;
  // Does the member rather wait?
  [[nodiscard]] virtual bool is_slow(std::size_t /*member*/) { return false; }
};

// `runs` of them. In every second one a member is slow.
class RandomChoices final : public Choices {
 public:
  RandomChoices(std::uint64_t seed, std::uint64_t runs) : random_(seed), left_(runs) {}
  [[nodiscard]] std::size_t pick(std::size_t options) override { return random_() % options; }
  [[nodiscard]] bool next_run(std::size_t members) override {
    slow_ = random_() % (2 * members);
    return left_-- > 0;
  }
  [[nodiscard]] bool is_slow(std::size_t member) override { return member == slow_ && random_() % 32 != 0; }

 private:
  std::mt19937_64 random_;
  std::uint64_t left_;
  std::size_t slow_ = 0;
};

// Depth first through all choices.
class AllChoices final : public Choices {
 public:
  [[nodiscard]] std::size_t pick(std::size_t options) override {
    if (depth_ == path_.size()) path_.push_back({0, options});
    return path_[depth_++].taken;
  }
  [[nodiscard]] bool next_run(std::size_t /*members*/) override {
    while (runs_ > 0 && !path_.empty() && path_.back().taken + 1 == path_.back().options) path_.pop_back();
    if (runs_ > 0 && path_.empty()) return false;
    if (runs_ > 0) ++path_.back().taken;
    depth_ = 0;
    ++runs_;
    return true;
  }
  [[nodiscard]] std::uint64_t runs() const { return runs_; }

 private:
  struct Choice {
    std::size_t taken;
    std::size_t options;
  };
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::uint64_t runs_ = 0;
};

enum class Mutation : std::uint8_t { none, dropped, unordered };

class Explorer {
 public:
  // A run's members: `member(rank)` is called in each one's fiber and returns an error, or nothing.
  using Member = std::function<std::string(std::uint32_t rank)>;

  void mutate(Mutation mutation, const std::string& site) {
    mutation_ = mutation;
    mutated_ = site;
  }
  // Memory in which accesses are checked, two ranges. Forgets earlier ones.
  void watch(std::span<const std::byte> one, std::span<const std::byte> other);
  // One run. Returns the error, if any: a race, a deadlock, or what a member returns.
  [[nodiscard]] std::string run(std::uint32_t members, Choices& choices, const Member& member);
  // Places that have been passed in any run.
  [[nodiscard]] const std::set<std::string>& sites() const { return sites_; }

  Explorer();
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  struct Run;

 private:
  std::unique_ptr<Run> run_;
  std::set<std::string> sites_;
  Mutation mutation_ = Mutation::none;
  std::string mutated_;
};

}  // namespace outrigger::intranode
