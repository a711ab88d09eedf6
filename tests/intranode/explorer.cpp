#include "explorer.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string_view>

#include "intranode/flag.hpp"

namespace outrigger::intranode {
namespace {

using Word = std::atomic<std::uint64_t>;
using Clock = std::array<std::uint32_t, kMostMembers>;

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
// No run needs so many steps: it would go round in circles.
constexpr std::uint64_t kMostSteps = 200'000;

void join(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

// Unwinds a fiber.
struct Stopped {};

struct Store {
  Word* word;
  std::uint64_t value;
  Clock clock;
  bool comes_with_next = false;  // a word that the next flag orders
};

struct Fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(kStackBytes);
  std::deque<Store> buffer;
  Clock clock{};
  bool ended = false;
  // The last load of a wait, which has not ended it: the next one ends it only after another store has come out.
  const Word* seen = nullptr;
  std::uint64_t seen_version = 0;
  bool blocked = false;
  std::string_view site;
};

// The last accesses of a byte.
struct Shadow {
  std::uint32_t writer = 0;
  std::uint32_t written = 0;  // the writer's own clock; 0: never
  Clock read{};
};

struct Watched {
  const std::byte* first = nullptr;
  std::vector<Shadow> shadows;
  [[nodiscard]] bool holds(const std::byte* memory, std::size_t bytes) const {
    return memory >= first && memory + bytes <= first + shadows.size();
  }
};

struct Visible {
  std::uint64_t version = 0;
  Clock clock{};
};

}  // namespace

struct Explorer::Run {
  std::vector<std::unique_ptr<Fiber>> fibers;
  ucontext_t scheduler{};
  std::uint32_t current = 0;
  std::map<const Word*, Visible> words;
  std::array<Watched, 2> watched;
  std::string failure;
  bool stopping = false;
  const Member* member = nullptr;
  std::map<std::pair<const char*, std::uint32_t>, std::string> names;
  std::set<std::string>* sites = nullptr;
  Mutation mutation = Mutation::none;
  std::string mutated;

  [[nodiscard]] Fiber& fiber() { return *fibers[current]; }

  void fail(const std::string& what) {
    if (failure.empty()) failure = what;
    stopping = true;
  }
  // Lets the explorer choose who goes on. A member that only begins when the run has been stopped goes no further.
  void pass() {
    if (!stopping) ::swapcontext(&fiber().context, &scheduler);
    if (stopping) throw Stopped{};
  }
  void flush(Fiber& from) {
    while (from.buffer.size() > 1 && from.buffer.front().comes_with_next) {
      from.buffer.front().word->store(from.buffer.front().value, std::memory_order_relaxed);
      from.buffer.pop_front();
    }
    const Store store = from.buffer.front();
    from.buffer.pop_front();
    store.word->store(store.value, std::memory_order_relaxed);
    Visible& visible = words[store.word];
    ++visible.version;
    visible.clock = store.clock;
    for (const auto& fiber : fibers) fiber->blocked = false;
  }
  [[nodiscard]] bool unordered() { return mutation == Mutation::unordered && fiber().site == mutated; }

  [[nodiscard]] std::uint64_t load(const Word& word) {
    Fiber& own = fiber();
    const auto version_of = [&] { return words[&word].version; };
    own.blocked = own.seen == &word && own.seen_version == version_of();
    pass();
    own.seen = &word;
    own.seen_version = version_of();
    if (const Store* mine = own_store(word)) return mine->value;
    if (!unordered()) join(own.clock, words[&word].clock);
    return word.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t told(const Word& word) {
    const Store* mine = own_store(word);
    return mine != nullptr ? mine->value : word.load(std::memory_order_relaxed);
  }
  // The member's last one that no other member can see yet; nullptr if there is none.
  [[nodiscard]] const Store* own_store(const Word& word) {
    const auto& buffer = fiber().buffer;
    const auto mine =
        std::find_if(buffer.rbegin(), buffer.rend(), [&](const Store& store) { return store.word == &word; });
    return mine != buffer.rend() ? &*mine : nullptr;
  }
  // No other member can see it yet: no choice.
  void store(Word& word, std::uint64_t value) {
    Fiber& own = fiber();
    own.buffer.push_back({&word, value, unordered() ? Clock{} : own.clock});
    ++own.clock[current];
  }
  // Other members' words may come between if the site is unordered.
  [[nodiscard]] std::uint64_t exchange(Word& word, std::uint64_t expected, std::uint64_t desired,
                                       const std::source_location& site) {
    const bool kept = keeps(site);
    pass();
    Fiber& own = fiber();
    const auto is_own = [&](const Store& store) { return store.word == &word; };
    while (std::ranges::any_of(own.buffer, is_own)) flush(own);
    const std::uint64_t seen = word.load(std::memory_order_relaxed);
    if (seen != expected || !kept) return seen;
    if (unordered()) pass();
    word.store(desired, std::memory_order_relaxed);
    ++words[&word].version;
    for (const auto& fiber : fibers) fiber->blocked = false;
    return seen;
  }
  // The word's value does not decide the order of steps.
  void tell(Word& word, std::uint64_t value) { fiber().buffer.push_back({&word, value, {}, true}); }
  [[nodiscard]] bool keeps(const std::source_location& site) {
    std::string& name = names[{site.file_name(), site.line()}];
    if (name.empty()) {
      const std::string_view path = site.file_name();
      name = std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(site.line());
      sites->insert(name);
    }
    fiber().site = name;
    fiber().seen = nullptr;
    return mutation != Mutation::dropped || name != mutated;
  }

  template <class Check>
  void access(const void* memory, std::size_t bytes, const char* what, const Check& check) {
    const auto* first = static_cast<const std::byte*>(memory);
    const auto range = std::ranges::find_if(watched, [&](const Watched& one) { return one.holds(first, bytes); });
    if (range == watched.end()) return;
    const auto offset = static_cast<std::size_t>(first - range->first);
    for (std::size_t i = offset; i < offset + bytes; ++i) {
      if (check(range->shadows[i], fiber().clock)) continue;
      fail(std::string("race: member ") + std::to_string(current) + " " + what + " byte " + std::to_string(i));
      throw Stopped{};
    }
  }
  void reads(const void* memory, std::size_t bytes) {
    access(memory, bytes, "reads", [this](Shadow& shadow, const Clock& clock) {
      shadow.read[current] = clock[current];
      return shadow.written <= clock[shadow.writer];
    });
  }
  void writes(const void* memory, std::size_t bytes) {
    access(memory, bytes, "writes", [this](Shadow& shadow, const Clock& clock) {
      bool ordered = shadow.written <= clock[shadow.writer];
      for (std::size_t i = 0; i < clock.size(); ++i) ordered = ordered && shadow.read[i] <= clock[i];
      shadow.writer = current;
      shadow.written = clock[current];
      return ordered;
    });
  }

  void run_fiber() {
    try {
      const std::string wrong = (*member)(current);
      if (!wrong.empty()) fail(wrong);
    } catch (const Stopped&) {
      stopping = true;
    }
    fiber().ended = true;
    ::swapcontext(&fiber().context, &scheduler);
  }
  void resume(std::uint32_t rank) {
    current = rank;
    ::swapcontext(&scheduler, &fiber().context);
  }
  void make_fiber(std::uint32_t rank);
  void schedule(Choices& choices);
};

namespace {

Explorer::Run* running = nullptr;

void enter_fiber() {
  running->run_fiber();
}

}  // namespace

void Explorer::Run::make_fiber(std::uint32_t rank) {
  if (fibers.size() <= rank) fibers.push_back(std::make_unique<Fiber>());
  Fiber& fiber = *fibers[rank];
  fiber.buffer.clear();
  fiber.clock = {};
  fiber.clock[rank] = 1;
  fiber.ended = fiber.blocked = false;
  fiber.seen = nullptr;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, enter_fiber, 0);
}

// Members that can go on, and stores that can come out, are the options of each step.
void Explorer::Run::schedule(Choices& choices) {
  for (std::uint64_t step = 0; !stopping; ++step) {
    std::vector<std::size_t> options;
    bool ended = true;
    for (std::size_t i = 0; i < fibers.size(); ++i) {
      ended = ended && fibers[i]->ended;
      if (!fibers[i]->ended && !fibers[i]->blocked) options.push_back(i);
      if (!fibers[i]->buffer.empty()) options.push_back(fibers.size() + i);
    }
    if (options.empty() && ended) return;
    if (options.empty()) return fail("deadlock");
    if (step == kMostSteps) return fail("no end");
    std::size_t choice = options[options.size() == 1 ? 0 : choices.pick(options.size())];
    if (options.size() > 1 && choice < fibers.size() && choices.is_slow(choice)) continue;
    if (choice < fibers.size()) {
      resume(static_cast<std::uint32_t>(choice));
    } else {
      flush(*fibers[choice - fibers.size()]);
    }
  }
}

Explorer::Explorer() : run_(std::make_unique<Run>()) {}
Explorer::~Explorer() = default;

void Explorer::watch(std::span<const std::byte> one, std::span<const std::byte> other) {
  for (Watched& range : run_->watched) {
    const std::span<const std::byte> memory = &range == run_->watched.data() ? one : other;
    range.first = memory.data();
    range.shadows.assign(memory.size(), Shadow{});
  }
}

std::string Explorer::run(std::uint32_t members, Choices& choices, const Member& member) {
  Run& run = *run_;
  run.member = &member;
  run.sites = &sites_;
  run.mutation = mutation_;
  run.mutated = mutated_;
  run.words.clear();
  run.failure.clear();
  run.stopping = false;
  run.fibers.resize(std::min<std::size_t>(run.fibers.size(), members));
  for (std::uint32_t rank = 0; rank < members; ++rank) run.make_fiber(rank);
  running = &run;
  run.schedule(choices);
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    if (!run.fibers[rank]->ended) run.resume(rank);
  }
  return run.failure;
}

namespace steps {

bool keeps(const Site& site) {
  return running->keeps(site);
}
std::uint64_t load(const std::atomic<std::uint64_t>& word) {
  return running->load(word);
}
void store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  running->store(word, value);
}
void tell(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  running->tell(word, value);
}
std::uint64_t told(const std::atomic<std::uint64_t>& word) {
  return running->told(word);
}
std::uint64_t exchange(std::atomic<std::uint64_t>& word, std::uint64_t expected, std::uint64_t desired,
                       const Site& site) {
  return running->exchange(word, expected, desired, site);
}
void reads(const void* memory, std::size_t bytes) {
  running->reads(memory, bytes);
}
void writes(const void* memory, std::size_t bytes) {
  running->writes(memory, bytes);
}

}  // namespace steps
}  // namespace outrigger::intranode
