// The first line of a report: what Outrigger did for the program, and what it took for that. `outrigger report` says
// the same (python/outrigger/report_headline.py).
#pragma once

#include <string>

#include "report/summary.hpp"

namespace outrigger::report {

// Empty where no collective was called or counted.
[[nodiscard]] std::string headline(const Summary& summary);

}  // namespace outrigger::report
