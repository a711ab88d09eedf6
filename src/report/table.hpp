// A report as a plain table, for OUTRIGGER_REPORT=-.
#pragma once

#include <string>

#include "report/summary.hpp"

namespace outrigger::report {

[[nodiscard]] std::string as_table(const Summary& summary);

// "MPI_Abort with code 3 by rank 1"
[[nodiscard]] std::string text_of(const Ending& ended);

}  // namespace outrigger::report
