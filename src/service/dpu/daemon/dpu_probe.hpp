// Finds out what a DPU offers its host. `outriggerd dpu-probe` runs on the host, `outriggerd dpu` on the DPU.
#pragma once

#include <string>

#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

// On the host: reads the secret from standard input, prints one line of JSON. Returns the exit status.
[[nodiscard]] int run_dpu_probe(const std::string& address);

// Runs on the DPU.
void answer_probe(DpuLink& link, const DpuFrame& question);

}  // namespace outrigger::service
