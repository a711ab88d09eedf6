// Our control variables (MPI_T): the settings that are environment variables (protocol/options/settings.hpp), by the
// same names. Their values are texts. MPI_Init reads them; until then a tool may write them.
#pragma once

#include <span>

#include "mpi/tool/indices.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::mpi {

// Leaves out settings of `outrigger run` or tests, which may be secrets, and settings that the library does not read.
[[nodiscard]] std::span<const SettingRow* const> cvar_rows();
[[nodiscard]] int cvar_count();
[[nodiscard]] Indices& cvar_indices();

}  // namespace outrigger::mpi
