! Persistent collectives by three bindings: BINDING_MPIF (mpif.h), BINDING_USEMPI (use mpi), BINDING_F08 (use mpi_f08).
! Open MPI 4.1 has them by other names, in extensions.

#if defined(OPEN_MPI_NAMES)
#define ALLTOALL_INIT MPIX_Alltoall_init
#define ALLTOALLW_INIT MPIX_Alltoallw_init
#define ALLGATHERV_INIT MPIX_Allgatherv_init
#define BCAST_INIT MPIX_Bcast_init
#else
#define ALLTOALL_INIT MPI_Alltoall_init
#define ALLTOALLW_INIT MPI_Alltoallw_init
#define ALLGATHERV_INIT MPI_Allgatherv_init
#define BCAST_INIT MPI_Bcast_init
#endif

program persistent
#if defined(BINDING_F08)
  use mpi_f08
#if defined(OPEN_MPI_NAMES)
  use mpi_f08_ext
#endif
#elif defined(BINDING_USEMPI)
  use mpi
#if defined(OPEN_MPI_NAMES)
  use mpi_ext
#endif
#endif
  use, intrinsic :: iso_fortran_env, only: int32
  implicit none
#if defined(BINDING_MPIF)
  include 'mpif.h'
#endif

  integer, parameter :: runs = 50, block = 5000
#if defined(BINDING_F08)
  type(MPI_Request) :: requests(4)
  type(MPI_Datatype), allocatable :: types(:)
#else
  integer :: requests(4)
  integer, allocatable :: types(:)
#endif
  integer(int32), allocatable, asynchronous :: send(:), all(:), w_all(:), gathered(:), sent_by_last(:)
  integer, allocatable :: counts(:), displacements(:), byte_displacements(:)
  integer :: rank, ranks, error, run, peer, i
  logical :: done

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate (send(block*ranks), all(block*ranks), w_all(block*ranks), gathered(block*ranks), sent_by_last(block))
  allocate (counts(ranks), displacements(ranks), byte_displacements(ranks), types(ranks))
  do peer = 1, ranks
    counts(peer) = block
    displacements(peer) = (peer - 1)*block
    byte_displacements(peer) = 4*displacements(peer)
    types(peer) = MPI_INTEGER
  end do

  call ALLTOALL_INIT(send, block, MPI_INTEGER, all, block, MPI_INTEGER, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), error)
  call ALLTOALLW_INIT(send, counts, byte_displacements, types, w_all, counts, byte_displacements, types, &
                      MPI_COMM_WORLD, MPI_INFO_NULL, requests(2), error)
  call ALLGATHERV_INIT(send, block, MPI_INTEGER, gathered, counts, displacements, MPI_INTEGER, MPI_COMM_WORLD, &
                       MPI_INFO_NULL, requests(3), error)
  call BCAST_INIT(sent_by_last, block, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, requests(4), error)

  do run = 1, runs
    do i = 1, block*ranks
      send(i) = value(rank, i, run)
    end do
    all = -1
    w_all = -1
    gathered = -1
    sent_by_last = -1
    if (rank == ranks - 1) sent_by_last = send(1:block)
    if (mod(run, 2) == 0) then
      call MPI_Startall(4, requests, error)
      call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, error)
    else
      do i = 4, 1, -1
        call MPI_Start(requests(i), error)
      end do
      do i = 1, 3
        call MPI_Wait(requests(i), MPI_STATUS_IGNORE, error)
      end do
      done = .false.
      do while (.not. done)
        call MPI_Test(requests(4), done, MPI_STATUS_IGNORE, error)
      end do
    end if
    do peer = 0, ranks - 1
      do i = 1, block
        call need(all(peer*block + i) == value(peer, rank*block + i, run), 'alltoall')
        call need(w_all(peer*block + i) == value(peer, rank*block + i, run), 'alltoallw')
        call need(gathered(peer*block + i) == value(peer, i, run), 'allgatherv')
      end do
    end do
    do i = 1, block
      call need(sent_by_last(i) == value(ranks - 1, i, run), 'bcast')
    end do
  end do
  do i = 1, 4
    call MPI_Request_free(requests(i), error)
    call need(requests(i) == MPI_REQUEST_NULL, 'freed')
  end do
  if (rank == 0) print '(a)', 'persistent: well'
  call MPI_Finalize(error)

contains

  pure integer(int32) function value(of_rank, index, salt)
    integer, intent(in) :: of_rank, index, salt
    value = of_rank*1000003 + index*31 + salt*7919
  end function value

  subroutine need(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    integer :: code
    if (holds) return
    print '(a,i0,3a,i0)', 'rank ', rank, ': ', what, ' is wrong in run ', run
    call MPI_Abort(MPI_COMM_WORLD, 1, code)
  end subroutine need

end program persistent
