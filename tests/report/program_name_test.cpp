// A program has the name that its user knows.
#include "base/program_name.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace outrigger {
namespace {

std::string name_of(const std::string& command) {
  std::istringstream words(command);
  std::vector<std::string> split;
  for (std::string word; words >> word;) split.push_back(word);
  return program_name(split);
}

TEST(ProgramName, IsThatOfTheExecutable) {
  EXPECT_EQ(name_of("./build/lmp -in in.lj"), "lmp");
  EXPECT_EQ(name_of("lmp"), "lmp");
  EXPECT_EQ(name_of("/opt/pythonic -m x"), "pythonic");
}

TEST(ProgramName, IsThatOfAnInterpretersScript) {
  EXPECT_EQ(name_of("python3 src/halo.py --n 4"), "halo.py");
  EXPECT_EQ(name_of("/venv/bin/python3.11 -u -W ignore -E halo.py"), "halo.py");
  EXPECT_EQ(name_of("python -m mpi4py halo.py"), "halo.py");
  EXPECT_EQ(name_of("python -m mpi4py -m solver.main"), "solver.main");
  EXPECT_EQ(name_of("python -m solver x"), "solver");
  EXPECT_EQ(name_of("julia --project=. -t 4 heat.jl"), "heat.jl");
  EXPECT_EQ(name_of("/usr/lib/R/bin/exec/R --no-echo --no-restore --file=fit.R --args 3"), "fit.R");
  EXPECT_EQ(name_of("java -cp a:b -Xmx4g Main"), "Main");
}

TEST(ProgramName, IsTheInterpretersWithoutAScript) {
  EXPECT_EQ(name_of("python3 -c import"), "python3");
  EXPECT_EQ(name_of("python3"), "python3");
  EXPECT_EQ(name_of("python3 -m"), "python3");
}

TEST(ProgramName, IsOneShortLine) {
  EXPECT_EQ(name_of(""), "unknown");
  EXPECT_EQ(program_name(std::vector<std::string>{"a\nb"}), "a?b");
  EXPECT_EQ(name_of(std::string(100, 'x')), std::string(kMostOfProgramName, 'x'));
}

TEST(ProgramName, OfThisProcessIsFound) {
  EXPECT_EQ(program_name(), "report_test");
}

}  // namespace
}  // namespace outrigger
