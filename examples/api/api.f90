! Use of Outrigger's API in Fortran. Runs with and without Outrigger: see docs/using/api.md.
program api
  use mpi
  use outrigger
  use, intrinsic :: iso_c_binding, only: c_int64_t
  implicit none
  integer, parameter :: rounds = 10, numbers = 16384
  integer :: rank, ranks, error, switched
  logical :: was_on
  integer, allocatable, asynchronous :: sent(:), received(:)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate(sent(numbers*ranks), received(numbers*ranks), source=rank)

  if (rank == 0 .and. outrigger_is_active()) print '(3a)', 'Outrigger ', outrigger_version(), ' offloads'
  if (rank == 0 .and. .not. outrigger_is_active()) print '(2a)', 'nothing is offloaded: ', outrigger_inactive_reason()
  error = outrigger_counting_start()

  error = outrigger_phase_push('offloaded')
  call exchange()
  error = outrigger_phase_pop()

  switched = outrigger_switch(.false., was_on)  ! on all ranks, at the same place
  error = outrigger_phase_push('native')
  call exchange()
  error = outrigger_phase_pop()
  if (switched == outrigger_ok) switched = outrigger_switch(was_on)

  if (rank == 0 .and. outrigger_is_active()) then
    print '(a,i0,a,i0,a,i0,a)', 'rank 0: ', counter('outrigger_calls'), ' collectives, ', &
      counter('outrigger_offloaded'), ' offloaded, ', counter('outrigger_native_switched_off'), ' switched off'
  end if
  call MPI_Finalize(error)

contains

  subroutine exchange()
    integer :: i, request
    do i = 1, rounds
      call MPI_Ialltoall(sent, numbers, MPI_INTEGER, received, numbers, MPI_INTEGER, MPI_COMM_WORLD, request, error)
      call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    end do
  end subroutine

  integer(c_int64_t) function counter(name)
    character(len=*), intent(in) :: name
    integer :: result
    counter = 0
    result = outrigger_counter_read(name, counter)
  end function
end program
