# Programs and libraries for the installed MPIs. Each MPI and each of its languages has an interface target,
# outrigger_mpi_<mpi>_<c|fortran>, with the flags of the MPI's compiler wrapper or of pkg-config.
#
# The wrappers are called by their full names, so the system's default MPI does not matter. Cross builds use only
# pkg-config, as wrappers of another architecture do not run here. mpiabi is the ABI of MPI 5, with the header and library
# of any MPI that has them: `./dev mpis` installs one in build/mpis. Preload libraries need only its header, which is the
# same for all architectures.

# Fortran programs are not installed; they are for tests, which run in the build tree.
if(NOT CMAKE_CROSSCOMPILING)
  include(CheckLanguage)
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
  endif()
endif()

set(OUTRIGGER_MPIS openmpi mpich mpiabi CACHE STRING "MPI ABIs to build for, where an MPI has them")
set(OUTRIGGER_MPI_HINTS_mpiabi ${PROJECT_SOURCE_DIR}/build/mpis/mpich/bin)
set(outrigger_mpi_openmpi_package ompi-c)
set(outrigger_mpi_mpich_package mpich)
set(outrigger_mpi_mpiabi_package mpi_abi)

# Output of the compiler wrapper or pkg-config; empty if neither knows this MPI.
function(outrigger_mpi_words mpi language result)
  set(${result} "" PARENT_SCOPE)
  set(wrappers mpicc.${mpi})
  if(mpi STREQUAL mpiabi)
    set(wrappers mpicc_abi)
  endif()
  if(language STREQUAL fortran)
    if(mpi STREQUAL mpiabi)
      return() # its Fortran bindings depend on the Fortran compiler
    endif()
    set(wrappers mpifort.${mpi} mpif90.${mpi})
  endif()
  if(CMAKE_CROSSCOMPILING AND NOT mpi STREQUAL mpiabi)
    set(OUTRIGGER_WRAPPER_${mpi}_${language} "" CACHE FILEPATH "None: cross-compiling")
  endif()
  find_program(OUTRIGGER_WRAPPER_${mpi}_${language} NAMES ${wrappers} HINTS ${OUTRIGGER_MPI_HINTS_${mpi}})
  set(wrapper ${OUTRIGGER_WRAPPER_${mpi}_${language}})
  if(wrapper)
    execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE line RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${wrapper} -show failed with ${status}: is its MPI installed completely?")
    endif()
  elseif(language STREQUAL c)
    execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --cflags --libs ${outrigger_mpi_${mpi}_package} OUTPUT_VARIABLE line
                    RESULT_VARIABLE status ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT status EQUAL 0)
      set(line "")
    endif()
  endif()
  separate_arguments(words UNIX_COMMAND "${line}")
  set(${result} ${words} PARENT_SCOPE)
endfunction()

function(outrigger_find_mpi mpi language)
  outrigger_mpi_words(${mpi} ${language} words)
  if(NOT words)
    message(STATUS "${mpi}: no ${language} compiler wrapper; what needs it is not built")
    return()
  endif()
  set(target outrigger_mpi_${mpi}_${language})
  add_library(${target} INTERFACE)
  foreach(word IN LISTS words)
    if(word MATCHES "^-DMPI_ABI$")
      target_compile_definitions(${target} INTERFACE MPI_ABI)
    elseif(word MATCHES "^-I(.+)")
      target_include_directories(${target} SYSTEM INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-L(.+)")
      target_link_directories(${target} INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-l(.+)")
      target_link_libraries(${target} INTERFACE ${CMAKE_MATCH_1})
    endif()
  endforeach()
  target_compile_definitions(${target} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endfunction()

foreach(mpi IN LISTS OUTRIGGER_MPIS)
  outrigger_find_mpi(${mpi} c)
  if(CMAKE_Fortran_COMPILER)
    outrigger_find_mpi(${mpi} fortran)
  endif()
endforeach()

# outrigger_mpi_program(DIRECTORY PREFIX NAME LANGUAGE source...)
#
# An ordinary MPI program, once per MPI: target <PREFIX><NAME>_<mpi>, file ${CMAKE_BINARY_DIR}/<DIRECTORY>/<mpi>/<NAME>.
# Not linked to Outrigger, and without its flags or sanitizers. For mpiabi only on request, by target.
# cmake/install.cmake finds them in the global property OUTRIGGER_MPI_PROGRAMS.
function(outrigger_mpi_program directory prefix name language)
  foreach(mpi IN LISTS OUTRIGGER_MPIS)
    if(NOT TARGET outrigger_mpi_${mpi}_${language})
      continue()
    endif()
    set(target ${prefix}${name}_${mpi})
    add_executable(${target} ${ARGN})
    target_link_libraries(${target} PRIVATE outrigger_mpi_${mpi}_${language})
    # gcc treats MPICH's MPI_STATUSES_IGNORE as an array without elements: no -Wstringop-overflow.
    target_compile_options(
      ${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>
                        $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${OUTRIGGER_WERROR}>>:-Werror>
                        $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-stringop-overflow>
                        $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
                        $<$<COMPILE_LANGUAGE:Fortran>:-fallow-argument-mismatch;-w>)
    set_target_properties(
      ${target} PROPERTIES OUTPUT_NAME ${name}
                           RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${directory}/${mpi}
                           OUTRIGGER_DIRECTORY ${directory}/${mpi}
                           OUTRIGGER_LANGUAGE ${language}
                           Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target})
    set_property(GLOBAL APPEND PROPERTY OUTRIGGER_MPI_PROGRAMS ${target})
    if(mpi STREQUAL mpiabi)
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
endfunction()
