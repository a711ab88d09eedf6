! A numbered phase: MPI_Pcontrol has no names in Fortran.
program regions
  use mpi
  implicit none
  integer :: error, sent, received, step
  call MPI_Init(error)
  sent = 1
  do step = 1, 3
    call MPI_Pcontrol(7)
    call MPI_Allreduce(sent, received, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Pcontrol(-7)
  end do
  call MPI_Finalize(error)
end program regions
