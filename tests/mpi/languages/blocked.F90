! Rank 0 receives what none sends, and then again at another place of the same procedure, until the test ends it:
!
!   blocked_mpif PLACE
!
! First it receives what rank 1 does send, at the place that is not asked for. The remarks name the places for the test.

program blocked
#if defined(BINDING_F08)
  use mpi_f08
#elif defined(BINDING_USEMPI)
  use mpi
#endif
  implicit none
#if defined(BINDING_MPIF)
  include 'mpif.h'
#endif
  integer :: rank, error, got, round
  character(len=16) :: place

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call get_command_argument(1, place)
  got = 0
  call MPI_Allreduce(MPI_IN_PLACE, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 1) call MPI_Send(got, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, error)
  if (rank == 0) then
    print '(a)', 'blocked: there'
    flush (6)
    do round = 1, 2
      if ((round == 1) .neqv. (place == 'first')) then
        call MPI_Recv(got, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error) ! place: first
      else
        call MPI_Recv(got, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error) ! place: second
      end if
    end do
  end if
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program blocked
