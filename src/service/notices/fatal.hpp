// Tells a rank through its segment that the job cannot continue, or gives it a warning.
#pragma once

#include <string_view>

#include "protocol/shared/segment.hpp"

namespace outrigger::service {

// Writes the text (cut at kFatalTextBytes - 1), then the flag, and wakes the rank if it sleeps. The first text stays.
void write_fatal(SegmentView segment, std::string_view text, FatalState state);
// For the report; has no effect after write_fatal().
void write_warning(SegmentView segment, std::string_view text);

}  // namespace outrigger::service
