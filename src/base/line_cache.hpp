// Keys with values that a user's runs keep for later ones: a file for each kind of machine, MPI and placement, and
// where it matters for each program, in $XDG_CACHE_HOME/outrigger or ~/.cache/outrigger.
//
//   outrigger-choices 4                              the title
//   machine Intel(R) Xeon(R) ..., 64 CPUs
//   mpi Open MPI v4.1.4, ...
//   cores ranks have their own, service processes have others
//   program lmp
//   ialltoall nonblocking 17 64 2 32 4 native 1764300000
//
// A line has a key of words, a value of one word, and since when the value is the same, in seconds since 1970. Where
// unused lines go, it is the day on which a run used it last.
//
// A file that is something else, or of another machine or MPI, is left alone, and one line says so. At most
// kMostFiles of a kind are kept: a new one takes the place of the one that has been unchanged for longest.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace outrigger {

class LineCache {
 public:
  static constexpr std::size_t kMostFiles = 256;

  struct Kind {
    std::string title;
    std::string files;       // choices: choices-<hash>.txt
    std::size_t most_lines;  // at the limit nothing is added, or the lines that were unused for longest go
    bool (*is_line)(const std::string& key, const std::string& value);
    std::string program = {};    // whose lines these are; empty: all programs share them
    std::size_t most_bytes = 0;  // of a file whose unused lines go; 0: they stay
  };
  // `cores`: the placement, in words. `mpi_name`: of the MPI, asked when it is needed. `refuse`: says that the file of
  // this path is another one.
  LineCache(Kind kind, std::string cores, std::function<std::string()> mpi_name,
            void (*refuse)(const std::string& path))
      : kind_(std::move(kind)), cores_(std::move(cores)), mpi_name_(std::move(mpi_name)), refuse_(refuse) {}

  // The value that an earlier run kept. Nothing: not known.
  [[nodiscard]] std::optional<std::string> find(const std::string& key);
  void note(const std::string& key, const std::string& value);
  // Adds what was noted to the file, which other ranks and jobs may do as well. A failed write is ignored.
  void save();

 private:
  struct Kept {
    std::string value;
    std::int64_t since_s = 0;
  };
  using Lines = std::map<std::string, Kept>;

  // False: it is not one of ours.
  [[nodiscard]] bool read(const std::string& text, Lines& lines) const;
  void read_file();
  [[nodiscard]] bool drops_unused() const { return kind_.most_bytes != 0; }
  // Adds what was noted and used to the lines of the file.
  void merge_into(Lines& lines) const;
  void drop_unused(Lines& lines) const;
  [[nodiscard]] std::string text_of(const Lines& lines) const;

  Kind kind_;
  std::string cores_;
  std::function<std::string()> mpi_name_;
  void (*refuse_)(const std::string& path);
  std::mutex mutex_;
  bool is_read_ = false;
  bool usable_ = true;
  // Once it is read. An empty directory: nothing is kept.
  std::string directory_;
  std::string path_;
  std::string header_;
  Lines known_;
  Lines noted_;
  std::set<std::string> used_;  // keys whose lines have an older date
};

}  // namespace outrigger
