// Telling a rank, through its segment, that the job cannot go on.
#pragma once

#include <string_view>

#include "protocol/segment.hpp"

namespace outrigger::service {

// Writes the text (cut at kFatalTextBytes - 1), then the flag, and wakes the rank if it sleeps. The first text stays.
void write_fatal(SegmentView segment, std::string_view text, FatalState state);

}  // namespace outrigger::service
