// Completes requests with every call MPI has for it, chosen at random.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>
#include <vector>

#include "random.hpp"

namespace differential {

// Completes all of `requests`, which may include null and inactive ones. Calls `done(index, status)` once for each
// active request; the status is nullptr if it was ignored.
using Done = std::function<void(std::size_t index, const MPI_Status* status)>;
void complete(std::span<MPI_Request> requests, const std::vector<bool>& active, Random& random, const Done& done);

// Tests a few requests without waiting for any. Requests that complete are reported and marked inactive.
void poke(std::span<MPI_Request> requests, std::vector<bool>& active, Random& random, const Done& done);

}  // namespace differential
