#include "steer/rank/decision_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"

namespace outrigger::steer {
namespace {

constexpr const char* kTitle = "outrigger-choices 3";

std::string of_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "unknown";
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    model = line.substr(colon + 2);
    break;
  }
  return model + ", " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " CPUs";
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// In time, or not at all: the file may be on a network.
bool take_lock(int fd) {
  for (int tries = 0; tries < 20; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace

DecisionPlace decision_place(std::string cores, std::string mpi) {
  std::string cache = of_environment("XDG_CACHE_HOME");
  if (!cache.starts_with('/')) {
    const std::string home = of_environment("HOME");
    if (!home.starts_with('/')) return {};
    cache = home + "/.cache";
  }
  return DecisionPlace{cache + "/outrigger", machine(), std::move(mpi), std::move(cores)};
}

std::string DecisionPlace::file() const {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : machine + "/" + mpi + "/" + cores)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  std::array<char, 17> digits{};
  static_cast<void>(std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash)));
  return directory + "/choices-" + digits.data() + ".txt";
}

DecisionFile::Key DecisionFile::key_of(const GroupShape& shape, CallKey key) {
  return {key.value, shape.ranks, shape.nodes, shape.ranks_per_node, shape.services};
}

std::string DecisionFile::header() const {
  return std::string(kTitle) + "\nmachine " + place_.machine + "\nmpi " + place_.mpi + "\ncores " + place_.cores + "\n";
}

std::string DecisionFile::line_of(const Key& key, const Kept& kept) {
  const auto& [call, ranks, nodes, ranks_per_node, services] = key;
  const CallKey kind{call};
  std::ostringstream line;
  line << name_of(kind.collective()) << (kind.blocking() ? " blocking " : " nonblocking ") << kind.size_class() << ' '
       << ranks << ' ' << nodes << ' ' << ranks_per_node << ' ' << services << ' '
       << (kept.method.is_native() ? std::string_view("native") : name_of(*kept.method.algorithm())) << ' '
       << kept.since_s << '\n';
  return line.str();
}

bool DecisionFile::read_line(const std::string& line, Methods& methods) {
  std::istringstream words(line);
  std::string collective;
  std::string form;
  std::string name;
  std::uint16_t size_class = 0;
  std::int64_t since_s = 0;
  GroupShape shape;
  words >> collective >> form >> size_class >> shape.ranks >> shape.nodes >> shape.ranks_per_node >> shape.services >>
      name >> since_s;
  const std::optional<Collective> known = collective_named(collective);
  const std::optional<Algorithm> algorithm = algorithm_named(name);
  const bool blocking = form == "blocking";
  std::string more;
  if (!words || (words >> more) || !known || (!blocking && form != "nonblocking")) return false;
  if (size_class >= CallKey::kSizeClasses || (name != "native" && !algorithm)) return false;
  const CallKey key{static_cast<std::uint16_t>(CallKey::of(*known, blocking, 0).value + size_class)};
  const Method method = algorithm ? Method::by(*algorithm) : Method::native();
  if (!method.possible_for(key) || methods.size() >= kMostLines) return false;
  methods.insert_or_assign(key_of(shape, key), Kept{method, since_s});
  return true;
}

bool DecisionFile::read(const std::string& text, Methods& methods) const {
  if (!text.starts_with(header())) return false;
  std::istringstream lines(text.substr(header().size()));
  Methods found;
  for (std::string line; std::getline(lines, line);) {
    if (!read_line(line, found)) return false;
  }
  methods = std::move(found);
  return true;
}

void DecisionFile::read_file() {
  if (std::exchange(is_read_, true)) return;
  place_ = decision_place(cores_, mpi_name_());
  if (place_.directory.empty()) return;
  const std::string text = contents(place_.file());
  if (text.empty() || read(text, known_)) return;
  usable_ = false;
  refuse_(place_.file());
}

std::optional<Method> DecisionFile::method(const GroupShape& shape, CallKey key) {
  if (!has_alike_blocks(key.collective())) return std::nullopt;
  const std::lock_guard lock(mutex_);
  read_file();
  const auto found = known_.find(key_of(shape, key));
  return found == known_.end() ? std::nullopt : std::optional(found->second.method);
}

void DecisionFile::note(const GroupShape& shape, std::span<const CachedDecision> decisions) {
  const std::lock_guard lock(mutex_);
  for (const CachedDecision& decision : decisions) {
    if (decision.key.known() && has_alike_blocks(decision.key.collective()))
      noted_.insert_or_assign(key_of(shape, decision.key), Kept{decision.method, now_s()});
  }
}

// Other ranks and jobs may be at it as well.
void DecisionFile::save() {
  const std::lock_guard lock(mutex_);
  if (noted_.empty()) return;
  read_file();
  if (place_.directory.empty() || !usable_) return;
  static_cast<void>(::mkdir(place_.directory.substr(0, place_.directory.rfind('/')).c_str(), 0700));
  static_cast<void>(::mkdir(place_.directory.c_str(), 0700));
  const UniqueFd guard(::open((place_.file() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!guard.valid() || !take_lock(guard.get())) return;
  Methods all;
  const std::string before = contents(place_.file());
  if (!before.empty() && !read(before, all)) return;
  for (const auto& [key, kept] : noted_) {
    const auto known = all.find(key);
    if (known == all.end() && all.size() == kMostLines) continue;
    if (known == all.end() || !(known->second.method == kept.method)) all.insert_or_assign(key, kept);
  }
  std::string text = header();
  for (const auto& [key, kept] : all) text += line_of(key, kept);
  if (text != before) static_cast<void>(write_file(place_.file(), text, false));
}

}  // namespace outrigger::steer
