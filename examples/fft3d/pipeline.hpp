// Transforms of many variables, forward and inverse, stage by stage.
//
//   forward x  ~>  forward y  ~>  forward z  ->  inverse z  ~>  inverse y  ~>  inverse x        ~> an all-to-all
//
// When pipelined, each variable is one stage behind the previous one: while the all-to-all of one is in flight, the
// others compute.
//
//   step   0    1    2    3    4    5
//   u      fx ~ fy ~ fz   iz ~ iy ~ ix
//   v           fx ~ fy ~ fz   iz ~ iy ...
//   w                fx ~ fy ~ fz ...
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <vector>

#include "exchange.hpp"
#include "memory.hpp"
#include "process_grid.hpp"
#include "trace.hpp"
#include "transform.hpp"

namespace fft3d {

enum class Mode {
  kBlocking,     // MPI_Alltoallv, one variable at a time
  kNonblocking,  // MPI_Ialltoallv, pipelined
  kTesting,      // the same, with MPI_Test of all requests in flight between pieces of the computation
  kCompute,      // the pipeline's computation alone, without exchanges; the results are meaningless
};

// A variable: its field in X-pencils, and its transform in Z-pencils.
struct Variable {
  Array field;
  Array spectrum;
};

class Pipeline {
 public:
  // Refers to `grid`; destroy it before MPI_Finalize. Each transform is computed in `pieces` pieces.
  Pipeline(const ProcessGrid& grid, Memory memory, int variables, std::size_t pieces);

  [[nodiscard]] std::vector<Variable>& variables() { return variables_; }
  [[nodiscard]] const std::vector<Variable>& variables() const { return variables_; }

  // Fields to spectra, not normalized.
  void forward(Mode mode, Trace& trace);
  // Spectra to fields, divided by the number of points.
  void inverse(Mode mode, Trace& trace);
  // Both, in one pipeline.
  void round_trip(Mode mode, Trace& trace);

  static constexpr int kStages = 6;
  static constexpr std::array<const char*, kStages> kStageNames = {"forward x", "forward y", "forward z",
                                                                   "inverse z", "inverse y", "inverse x"};

 private:
  struct Stage {
    Pencil pencil;
    std::unique_ptr<Transform> transform;
    std::unique_ptr<Exchange> exchange;  // to the next stage's pencils; nullptr: the result is the caller's
  };
  // Data in flight from one stage of a variable to its next.
  struct Transit {
    Array send;
    Array receive;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void add_stage(Axis axis, Direction direction, MPI_Comm comm, Axis next, std::size_t pieces);
  void run_stages(int first, int last, Mode mode, Trace& trace);
  void run_stage(int variable, int index, Mode mode, Trace& trace);
  void compute(int variable, int index, Mode mode);
  // In mode kTesting: lets the MPI progress.
  void test_all(Mode mode);
  void load(int variable, int index);
  void store(int variable, int index);
  void send(int variable, int index, Mode mode, Trace& trace);
  [[nodiscard]] Complex* result_of(int variable, Axis axis);

  const ProcessGrid& grid_;
  double scale_;
  Array work_;
  std::vector<Stage> stages_;
  std::vector<Variable> variables_;
  std::vector<Transit> transits_;
};

}  // namespace fft3d
