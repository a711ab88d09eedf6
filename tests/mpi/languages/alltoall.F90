! The program of alltoall.c, for three bindings: BINDING_MPIF (mpif.h), BINDING_USEMPI (use mpi), BINDING_F08 (use mpi_f08).
!
!   alltoall_mpif PREFIX

program alltoall
#if defined(BINDING_F08)
  use mpi_f08
#elif defined(BINDING_USEMPI)
  use mpi
#endif
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  implicit none
#if defined(BINDING_MPIF)
  include 'mpif.h'
#endif

  integer, parameter :: blocks(4) = [1, 17, 4096, 40000]
  integer :: rank, ranks, i, error
  character(len=4096) :: prefix
  character(len=12) :: suffix

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, prefix)
  write (suffix, '(a,i0)') '.', rank
  open (unit=10, file=trim(prefix)//trim(suffix), access='stream', form='unformatted', status='replace')
  do i = 1, size(blocks)
    call run(blocks(i))
    call run_others(blocks(i))
  end do
  close (10)
  call MPI_Finalize(error)

contains

  pure integer(int32) function value(of_rank, index, salt)
    integer, intent(in) :: of_rank, index, salt
    value = int(mod(int(of_rank, int64)*1000003_int64 + int(index, int64)*31_int64 + int(salt, int64)*7919_int64, &
                    1000000007_int64), int32)
  end function value

  ! Elements that rank `from` sends to rank `to` in the v-form.
  pure integer function v_count(from, to, block)
    integer, intent(in) :: from, to, block
    v_count = mod(from*3 + to*5, 4)*block/3
  end function v_count

  subroutine from_mpi(elements, array)
    integer, intent(in) :: elements
    integer(int32), pointer, contiguous, intent(out) :: array(:)
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    type(c_ptr) :: address
#if defined(BINDING_MPIF)
    integer(kind=MPI_ADDRESS_KIND) :: plain_address
    bytes = 4_int64*elements
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, plain_address, error)
    address = transfer(plain_address, address)
#else
    bytes = 4_int64*elements
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, address, error)
#endif
    call c_f_pointer(address, array, [elements])
  end subroutine from_mpi

  subroutine run(block)
    integer, intent(in) :: block
#if defined(BINDING_F08)
    type(MPI_Request) :: requests(4)
    type(MPI_Datatype) :: strided, every_second
    type(MPI_Status) :: status
#else
    integer :: requests(4), strided, every_second, status(MPI_STATUS_SIZE)
#endif
    integer(int32), pointer, contiguous, asynchronous :: send(:), receive(:)
    integer(int32), allocatable, asynchronous :: in_place(:), s_send(:), s_receive(:)
    real(real64), allocatable, asynchronous :: v_send(:), v_receive(:)
    integer, allocatable, asynchronous :: counts(:, :), displacements(:, :)
    integer(kind=MPI_ADDRESS_KIND) :: lower, extent
    integer :: elements, total(2), side, peer, k
    logical :: done

    elements = block*ranks

    ! Regular, from and to memory of MPI's.
    call from_mpi(elements, send)
    call from_mpi(elements, receive)
    do k = 1, elements
      send(k) = value(rank, k - 1, 1)
    end do
    receive = -1
    call MPI_Ialltoall(send, block, MPI_INTEGER, receive, block, MPI_INTEGER, MPI_COMM_WORLD, requests(1), error)

    ! The v-form, with two elements between the blocks.
    allocate (counts(ranks, 2), displacements(ranks, 2))
    total = 0
    do side = 1, 2
      do peer = 1, ranks
        if (side == 1) then
          counts(peer, side) = v_count(rank, peer - 1, block)
        else
          counts(peer, side) = v_count(peer - 1, rank, block)
        end if
        displacements(peer, side) = total(side)
        total(side) = total(side) + counts(peer, side) + 2
      end do
    end do
    allocate (v_send(total(1)), v_receive(total(2)))
    do k = 1, total(1)
      v_send(k) = value(rank, k - 1, 2)*0.5_real64
    end do
    v_receive = -1
    call MPI_Ialltoallv(v_send, counts(:, 1), displacements(:, 1), MPI_DOUBLE_PRECISION, v_receive, counts(:, 2), &
                        displacements(:, 2), MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, requests(2), error)

    ! In place.
    allocate (in_place(elements))
    do k = 1, elements
      in_place(k) = value(rank, k - 1, 3)
    end do
    call MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INTEGER, in_place, block, MPI_INTEGER, MPI_COMM_WORLD, requests(3), error)

    ! Every second element, into a contiguous buffer.
    lower = 0
    extent = 8_int64*block
    call MPI_Type_vector(block, 1, 2, MPI_INTEGER, strided, error)
    call MPI_Type_create_resized(strided, lower, extent, every_second, error)
    call MPI_Type_commit(every_second, error)
    call MPI_Type_free(strided, error)
    allocate (s_send(2*elements), s_receive(elements))
    do k = 1, 2*elements
      s_send(k) = value(rank, k - 1, 4)
    end do
    s_receive = -1
    call MPI_Ialltoall(s_send, 1, every_second, s_receive, block, MPI_INTEGER, MPI_COMM_WORLD, requests(4), error)

    call MPI_Waitall(2, requests(3:4), MPI_STATUSES_IGNORE, error)
    call MPI_Wait(requests(1), status, error)
    done = .false.
    do while (.not. done)
      call MPI_Test(requests(2), done, MPI_STATUS_IGNORE, error)
    end do

    write (10) receive, v_receive, in_place, s_receive
    call MPI_Type_free(every_second, error)
    call MPI_Free_mem(send, error)
    call MPI_Free_mem(receive, error)
  end subroutine run

  subroutine run_others(block)
    integer, intent(in) :: block
#if defined(BINDING_F08)
    type(MPI_Request) :: requests(3)
    type(MPI_Datatype) :: types(ranks)
#else
    integer :: requests(3), types(ranks)
#endif
    integer, asynchronous :: counts(ranks), displacements(ranks)
    integer(int32), allocatable, asynchronous :: w_send(:), w_receive(:), gathered(:), from_last(:), from_first(:)
    integer :: elements, k

    elements = block*ranks

    ! A type and a displacement in bytes for each peer.
    allocate (w_send(elements), w_receive(elements))
    counts = block
    types = MPI_INTEGER
    do k = 1, ranks
      displacements(k) = (k - 1)*block*4
    end do
    do k = 1, elements
      w_send(k) = value(rank, k - 1, 5)
    end do
    w_receive = -1
    call MPI_Ialltoallw(w_send, counts, displacements, types, w_receive, counts, displacements, types, &
                        MPI_COMM_WORLD, requests(1), error)

    ! Every rank's block for all, in place.
    allocate (gathered(elements))
    gathered = -1
    do k = rank*block + 1, (rank + 1)*block
      gathered(k) = value(rank, k - 1, 6)
    end do
    call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INTEGER, gathered, block, MPI_INTEGER, MPI_COMM_WORLD, requests(2), error)

    ! The last rank's block for all; before it is waited for, the first one's by the blocking form.
    allocate (from_last(block), from_first(block))
    from_last = -1
    from_first = -1
    do k = 1, block
      if (rank == ranks - 1) from_last(k) = value(rank, k - 1, 7)
      if (rank == 0) from_first(k) = value(rank, k - 1, 8)
    end do
    call MPI_Ibcast(from_last, block, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, requests(3), error)
    call MPI_Bcast(from_first, block, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, error)

    write (10) w_receive, gathered, from_last, from_first
  end subroutine run_others

end program alltoall
