// A library between a program and its MPI.
#pragma once

#include <mpi.h>

void sites_library_exchange(const int* sent, int* received, int count, MPI_Comm comm);
