// Decisions of earlier runs (steer/plan/decision.hpp), kept in the user's cache directory: a file for each kind of
// machine, MPI and placement, with a line for each kind of call on each shape of communicator. The first rank of a
// communicator reads it at first use, and adds to it at the end of the job. Nothing is kept for v-forms, whose kinds do
// not tell sizes apart: another program has other ones.
//
//   outrigger-choices 3
//   machine Intel(R) Xeon(R) ..., 64 CPUs
//   mpi Open MPI v4.1.4, ...
//   cores ranks have their own, service processes have others
//   ialltoall nonblocking 17 64 2 32 4 native 1764300000
//
// A line has the size class; ranks, nodes, ranks per node, service processes per node; the decision; and since when it
// is the same, in seconds since 1970.
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

#include "protocol/options/selection.hpp"
#include "steer/plan/decision.hpp"

namespace outrigger::steer {

// Names the file. The directory is in $XDG_CACHE_HOME or ~/.cache; empty: nothing is kept.
struct DecisionPlace {
  std::string directory;
  std::string machine;
  std::string mpi;
  std::string cores;

  [[nodiscard]] std::string file() const;
};
[[nodiscard]] DecisionPlace decision_place(std::string cores, std::string mpi);

class DecisionFile {
 public:
  // `cores`: whose they are, in words. `mpi_name`: of the MPI, asked when it is needed. `refuse`: says that the file of
  // this path is another one.
  DecisionFile(std::string cores, std::string (*mpi_name)(), void (*refuse)(const std::string& path))
      : cores_(std::move(cores)), mpi_name_(mpi_name), refuse_(refuse) {}

  // Nothing: not known.
  [[nodiscard]] std::optional<Method> method(const GroupShape& shape, CallKey key);
  void note(const GroupShape& shape, std::span<const CachedDecision> decisions);
  // Adds what was noted to the file. A failed write is ignored: the decisions are measured again.
  void save();

 private:
  static constexpr std::size_t kMostLines = 4096;  // at the limit nothing is added

  using Key = std::tuple<std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  struct Kept {
    Method method;
    std::int64_t since_s = 0;
  };
  using Methods = std::map<Key, Kept>;

  [[nodiscard]] static Key key_of(const GroupShape& shape, CallKey key);
  [[nodiscard]] std::string header() const;
  [[nodiscard]] static std::string line_of(const Key& key, const Kept& kept);
  [[nodiscard]] static bool read_line(const std::string& line, Methods& methods);
  // False: it is not one of ours.
  [[nodiscard]] bool read(const std::string& text, Methods& methods) const;
  void read_file();

  std::string cores_;
  std::string (*mpi_name_)();
  void (*refuse_)(const std::string& path);
  DecisionPlace place_;  // once it is read
  std::mutex mutex_;
  bool is_read_ = false;
  bool usable_ = true;
  Methods known_;
  Methods noted_;
};

}  // namespace outrigger::steer
