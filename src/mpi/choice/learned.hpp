// What trials have shown (protocol/choice.hpp), kept from one run to the next in the user's cache directory: a file for
// each kind of machine and MPI, and whose cores are whose, with a line for each kind of call on each shape of
// communicator. Ranks that are the first of a communicator read it when they first need to know, and add to it at the
// end of the job. Of v-forms, whose kinds do not tell sizes apart, nothing is kept: another program has other ones.
//
//   outrigger-choices 2
//   machine Intel(R) Xeon(R) ..., 64 CPUs
//   mpi Open MPI v4.1.4, ...
//   cores ranks have their own, service processes have others
//   ialltoall nonblocking 17 64 2 32 4 native        size class; ranks, nodes, ranks per node, service processes per
//   node
//
// A file that is something else, or of another machine or MPI, is left alone, and one line says so.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "protocol/choice.hpp"
#include "protocol/options/selection.hpp"

namespace outrigger::mpi {

// Of which file: that of $XDG_CACHE_HOME or ~/.cache; empty: nothing is kept.
struct LearnedPlace {
  std::string directory;
  std::string machine;
  std::string mpi;
  std::string cores;

  [[nodiscard]] std::string file() const;
};
[[nodiscard]] LearnedPlace learned_place(std::string cores);

class LearnedChoices {
 public:
  // `cores`: whose they are, in words.
  explicit LearnedChoices(std::string cores) : cores_(std::move(cores)) {}

  // Nothing: not known.
  [[nodiscard]] std::optional<Way> way(const GroupShape& shape, CallKey key);
  void note(const GroupShape& shape, std::span<const Choice> choices);
  // Adds what was noted to the file. What cannot be written is lost: it is learned again.
  void save();

 private:
  static constexpr std::size_t kMostLines = 4096;  // at the limit nothing is added

  using Key = std::tuple<std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  using Ways = std::map<Key, Way>;

  [[nodiscard]] static Key key_of(const GroupShape& shape, CallKey key);
  [[nodiscard]] std::string header() const;
  [[nodiscard]] static std::string line_of(const Key& key, Way way);
  [[nodiscard]] static bool read_line(const std::string& line, Ways& ways);
  // False: it is not one of ours.
  [[nodiscard]] bool read(const std::string& text, Ways& ways) const;
  void read_file();

  std::string cores_;
  LearnedPlace place_;  // once it is read
  std::mutex mutex_;
  bool is_read_ = false;
  bool usable_ = true;
  Ways known_;
  Ways noted_;
};

}  // namespace outrigger::mpi
