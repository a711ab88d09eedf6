! Outrigger's API for Fortran programs: the calls of outrigger.h, with Fortran communicators (an integer, or %MPI_VAL of
! mpi_f08's type). Compile this file with the program, and link with -loutrigger. See docs/using/api.md.
module outrigger
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: outrigger_version, outrigger_is_active, outrigger_inactive_reason, outrigger_result_text
  public :: outrigger_counting_start, outrigger_counter_read, outrigger_phase_push, outrigger_phase_pop
  public :: outrigger_switch, outrigger_comm_switch

  integer, parameter, public :: outrigger_ok = 0
  integer, parameter, public :: outrigger_not_active = 1
  integer, parameter, public :: outrigger_bad_argument = 2
  integer, parameter, public :: outrigger_not_counted = 3
  integer, parameter, public :: outrigger_disagreed = 4
  integer, parameter, public :: outrigger_limit = 5
  integer, parameter, public :: outrigger_mpi_failed = 6

  interface
    function c_version() bind(c, name='outrigger_version') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_is_active() bind(c, name='outrigger_is_active') result(active)
      import :: c_int
      integer(c_int) :: active
    end function
    function c_inactive_reason() bind(c, name='outrigger_inactive_reason') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_result_text(code) bind(c, name='outrigger_result_text') result(text)
      import :: c_int, c_ptr
      integer(c_int), value :: code
      type(c_ptr) :: text
    end function
    function c_counting_start() bind(c, name='outrigger_counting_start') result(code)
      import :: c_int
      integer(c_int) :: code
    end function
    function c_counter_index(name, place) bind(c, name='outrigger_counter_index') result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), intent(out) :: place
      integer(c_int) :: code
    end function
    function c_counter_read(place, value) bind(c, name='outrigger_counter_read') result(code)
      import :: c_int, c_int64_t
      integer(c_int), value :: place
      integer(c_int64_t), intent(out) :: value
      integer(c_int) :: code
    end function
    function c_counter_read_comm(comm, call_name, place, value) bind(c, name='outrigger_counter_read_comm_f') result(code)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: comm
      type(c_ptr), value :: call_name
      integer(c_int), value :: place
      integer(c_int64_t), intent(out) :: value
      integer(c_int) :: code
    end function
    function c_phase_push(name) bind(c, name='outrigger_phase_push') result(code)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function
    function c_phase_pop() bind(c, name='outrigger_phase_pop') result(code)
      import :: c_int
      integer(c_int) :: code
    end function
    function c_switch(on, was_on) bind(c, name='outrigger_switch') result(code)
      import :: c_int
      integer(c_int), value :: on
      integer(c_int), intent(out) :: was_on
      integer(c_int) :: code
    end function
    function c_comm_switch(comm, on, was_on) bind(c, name='outrigger_comm_switch_f') result(code)
      import :: c_int
      integer(c_int), value :: comm, on
      integer(c_int), intent(out) :: was_on
      integer(c_int) :: code
    end function
    function c_strlen(text) bind(c, name='strlen') result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  function text_of(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate(character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  function outrigger_version() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_version())
  end function

  logical function outrigger_is_active()
    outrigger_is_active = c_is_active() /= 0
  end function

  function outrigger_inactive_reason() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_inactive_reason())
  end function

  function outrigger_result_text(code) result(text)
    integer, intent(in) :: code
    character(len=:), allocatable :: text
    text = text_of(c_result_text(int(code, c_int)))
  end function

  integer function outrigger_counting_start()
    outrigger_counting_start = c_counting_start()
  end function

  ! By name; for one communicator if it is given. value changes only if the result is outrigger_ok.
  integer function outrigger_counter_read(name, value, comm)
    character(len=*), intent(in) :: name
    integer(c_int64_t), intent(inout) :: value
    integer, intent(in), optional :: comm
    integer(c_int) :: place
    integer(c_int64_t) :: found
    outrigger_counter_read = c_counter_index(trim(name)//c_null_char, place)
    if (outrigger_counter_read /= outrigger_ok) return
    if (present(comm)) then
      outrigger_counter_read = c_counter_read_comm(int(comm, c_int), c_null_ptr, place, found)
    else
      outrigger_counter_read = c_counter_read(place, found)
    end if
    if (outrigger_counter_read == outrigger_ok) value = found
  end function

  integer function outrigger_phase_push(name)
    character(len=*), intent(in) :: name
    outrigger_phase_push = c_phase_push(trim(name)//c_null_char)
  end function

  integer function outrigger_phase_pop()
    outrigger_phase_pop = c_phase_pop()
  end function

  ! Collective over MPI_COMM_WORLD.
  integer function outrigger_switch(on, was_on)
    logical, intent(in) :: on
    logical, intent(inout), optional :: was_on
    integer(c_int) :: before
    outrigger_switch = c_switch(merge(1_c_int, 0_c_int, on), before)
    if (present(was_on) .and. outrigger_switch == outrigger_ok) was_on = before /= 0
  end function

  ! Collective over the communicator.
  integer function outrigger_comm_switch(comm, on, was_on)
    integer, intent(in) :: comm
    logical, intent(in) :: on
    logical, intent(inout), optional :: was_on
    integer(c_int) :: before
    outrigger_comm_switch = c_comm_switch(int(comm, c_int), merge(1_c_int, 0_c_int, on), before)
    if (present(was_on) .and. outrigger_comm_switch == outrigger_ok) was_on = before /= 0
  end function
end module
