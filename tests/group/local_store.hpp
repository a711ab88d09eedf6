// Key-value stores for outrigger_group_create(): for threads of a process, and for processes with a common ancestor.
#pragma once

#include <outrigger/group.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace outrigger {

class ThreadStore {
 public:
  [[nodiscard]] struct outrigger_group_store callbacks() {
    return {.context = this,
            .set = [](void* self, const char* key, const void* value,
                      std::size_t bytes) { return static_cast<ThreadStore*>(self)->set(key, value, bytes); },
            .get =
                [](void* self, const char* key, void* value, std::size_t bytes, std::int64_t timeout_ms) {
                  return static_cast<ThreadStore*>(self)->get(key, value, bytes, timeout_ms);
                }};
  }

 private:
  int set(const char* key, const void* value, std::size_t bytes) {
    const std::scoped_lock held(lock_);
    values_[key].assign(static_cast<const char*>(value), bytes);
    changed_.notify_all();
    return 0;
  }
  int get(const char* key, void* value, std::size_t bytes, std::int64_t timeout_ms) {
    std::unique_lock held(lock_);
    const auto is_there = [&] { return values_.contains(key); };
    if (!changed_.wait_for(held, std::chrono::milliseconds(timeout_ms), is_there)) return 1;
    if (values_[key].size() != bytes) return 1;
    std::memcpy(value, values_[key].data(), bytes);
    return 0;
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// Names the nodes on which the ranks of later groups pretend to be, as "a,a,b"; "": they share memory. Threads and
// processes that are started later have it.
inline void pretend_nodes(const std::string& nodes) {
  ::setenv("OUTRIGGER_PRETEND_NODE", nodes.c_str(), 1);
}

// Runs `member` as each rank of a group, in threads.
inline void run_group(std::uint32_t size, const std::function<void(outrigger_group*, std::uint32_t)>& member) {
  ThreadStore store;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const outrigger_group_config config{.rank = rank, .size = size, .store = store.callbacks(), .timeout_ms = 60'000};
      outrigger_group* group = nullptr;
      ASSERT_EQ(outrigger_group_create(&config, &group), OUTRIGGER_GROUP_OK) << outrigger_group_last_error();
      member(group, rank);
      // Others may still take what this one has sent.
      outrigger_group_destroy(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A directory with a file for each key.
class FileStore {
 public:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}
  [[nodiscard]] struct outrigger_group_store callbacks() {
    return {.context = this,
            .set = [](void* self, const char* key, const void* value,
                      std::size_t bytes) { return static_cast<FileStore*>(self)->set(key, value, bytes); },
            .get =
                [](void* self, const char* key, void* value, std::size_t bytes, std::int64_t timeout_ms) {
                  return static_cast<FileStore*>(self)->get(key, value, bytes, timeout_ms);
                }};
  }

 private:
  [[nodiscard]] std::string path(std::string key) const {
    for (char& one : key) one = one == '/' ? '-' : one;
    return directory_ + "/" + key;
  }
  int set(const char* key, const void* value, std::size_t bytes) {
    const std::string made = path(key) + ".new";
    std::ofstream(made, std::ios::binary).write(static_cast<const char*>(value), static_cast<std::streamsize>(bytes));
    return std::rename(made.c_str(), path(key).c_str());
  }
  int get(const char* key, void* value, std::size_t bytes, std::int64_t timeout_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (std::chrono::steady_clock::now() < end) {
      std::ifstream file(path(key), std::ios::binary);
      if (file.read(static_cast<char*>(value), static_cast<std::streamsize>(bytes))) return 0;
      std::this_thread::yield();
    }
    return 1;
  }

  std::string directory_;
};

}  // namespace outrigger
