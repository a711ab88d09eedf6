#include "base/line_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"

namespace outrigger {
namespace {

std::string of_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string cache_directory() {
  std::string cache = of_environment("XDG_CACHE_HOME");
  if (!cache.starts_with('/')) {
    const std::string home = of_environment("HOME");
    if (!home.starts_with('/')) return {};
    cache = home + "/.cache";
  }
  return cache + "/outrigger";
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

std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  std::array<char, 17> digits{};
  static_cast<void>(std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash)));
  return digits.data();
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string line_of(const std::string& key, const std::string& value, std::int64_t since_s) {
  return key + " " + value + " " + std::to_string(since_s) + "\n";
}

constexpr std::int64_t kDay = 86'400;  // in seconds

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Its date is renewed when it is used.
bool is_old(std::int64_t since_s) {
  return since_s + kDay < now_s();
}

// Removes the oldest files that begin like this, until no more than `most` are there.
void make_room(const std::string& directory, const std::string& begin, std::size_t most) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (fs::directory_iterator file(directory, ignored), end; !ignored && file != end; file.increment(ignored)) {
    const fs::path& path = file->path();
    if (!path.filename().string().starts_with(begin) || path.extension() != ".txt") continue;
    found.emplace_back(file->last_write_time(ignored), path);
  }
  if (found.size() <= most) return;
  std::ranges::sort(found);
  found.resize(found.size() - most);
  for (const auto& [changed, path] : found) fs::remove(path, ignored);  // not its lock, which others may hold
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

bool LineCache::read(const std::string& text, Lines& lines) const {
  if (!text.starts_with(header_)) return false;
  std::istringstream all(text.substr(header_.size()));
  Lines found;
  for (std::string line; std::getline(all, line);) {
    const std::size_t date = line.rfind(' ');
    if (date == std::string::npos || date == 0 || found.size() >= kind_.most_lines) return false;
    const std::size_t space = line.rfind(' ', date - 1);
    if (space == std::string::npos) return false;
    const std::string key = line.substr(0, space);
    Kept kept{line.substr(space + 1, date - space - 1), 0};
    const char* end = line.data() + line.size();
    const auto [read_to, error] = std::from_chars(line.data() + date + 1, end, kept.since_s);
    if (error != std::errc() || read_to != end || !kind_.is_line(key, kept.value)) return false;
    found.insert_or_assign(key, std::move(kept));
  }
  lines = std::move(found);
  return true;
}

void LineCache::read_file() {
  if (std::exchange(is_read_, true)) return;
  directory_ = cache_directory();
  if (directory_.empty()) return;
  const std::string here = machine();
  const std::string mpi = mpi_name_();
  header_ = kind_.title + "\nmachine " + here + "\nmpi " + mpi + "\ncores " + cores_ + "\n";
  std::string about = kind_.title + "/" + here + "/" + mpi + "/" + cores_;
  if (!kind_.program.empty()) {
    header_ += "program " + kind_.program + "\n";
    about += "/" + kind_.program;
  }
  path_ = directory_ + "/" + kind_.files + "-" + hash_of(about) + ".txt";
  const std::string text = contents(path_);
  if (text.empty() || read(text, known_)) return;
  usable_ = false;
  refuse_(path_);
}

std::optional<std::string> LineCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  read_file();
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  if (drops_unused() && is_old(found->second.since_s)) used_.insert(key);
  return found->second.value;
}

void LineCache::note(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  noted_.insert_or_assign(key, Kept{value, now_s()});
}

void LineCache::merge_into(Lines& lines) const {
  for (const std::string& key : used_) {
    const auto known = lines.find(key);
    if (known != lines.end() && is_old(known->second.since_s)) known->second.since_s = now_s();
  }
  for (const auto& [key, kept] : noted_) {
    const auto known = lines.find(key);
    if (known == lines.end() && !drops_unused() && lines.size() >= kind_.most_lines) continue;
    const bool is_new = known == lines.end() || known->second.value != kept.value;
    if (is_new || (drops_unused() && is_old(known->second.since_s))) lines.insert_or_assign(key, kept);
  }
  if (drops_unused()) drop_unused(lines);
}

void LineCache::drop_unused(Lines& lines) const {
  std::vector<Lines::iterator> latest;
  for (auto line = lines.begin(); line != lines.end(); ++line) latest.push_back(line);
  std::ranges::stable_sort(latest, std::greater(), [](auto line) { return line->second.since_s; });
  std::size_t bytes = header_.size();
  std::size_t kept = 0;
  for (; kept < std::min(latest.size(), kind_.most_lines); ++kept) {
    bytes += line_of(latest[kept]->first, latest[kept]->second.value, latest[kept]->second.since_s).size();
    if (bytes > kind_.most_bytes) break;
  }
  for (; kept < latest.size(); ++kept) lines.erase(latest[kept]);
}

std::string LineCache::text_of(const Lines& lines) const {
  std::string text = header_;
  for (const auto& [key, kept] : lines) text += line_of(key, kept.value, kept.since_s);
  return text;
}

void LineCache::save() {
  const std::lock_guard lock(mutex_);
  if (noted_.empty() && used_.empty()) return;
  read_file();
  if (directory_.empty() || !usable_) return;
  static_cast<void>(::mkdir(directory_.substr(0, directory_.rfind('/')).c_str(), 0700));
  static_cast<void>(::mkdir(directory_.c_str(), 0700));
  const UniqueFd guard(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!guard.valid() || !take_lock(guard.get())) return;
  Lines all;
  const std::string before = contents(path_);
  if (!before.empty() && !read(before, all)) return;
  if (before.empty()) make_room(directory_, kind_.files + "-", kMostFiles - 1);
  merge_into(all);
  const std::string text = text_of(all);
  if (text != before) {
    static_cast<void>(write_file(path_, text, false));
  } else {
    static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0));  // it is still used
  }
}

}  // namespace outrigger
