# outrigger_ucx: the UCX to build against, the system's or that of a given prefix.
set(OUTRIGGER_UCX_ROOT "" CACHE PATH "Prefix of the UCX to use, with include/ and lib/; empty: the one that pkg-config knows")
set(OUTRIGGER_UCX_LEAST 1.13)

# A prefix is searched by hand: its pkg-config files name the place where it was built, which may be no more.
function(outrigger_given_ucx root)
  find_path(headers ucp/api/ucp.h PATHS ${root}/include NO_DEFAULT_PATH NO_CACHE)
  find_library(ucp ucp PATHS ${root} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH NO_CACHE)
  find_library(ucs ucs PATHS ${root} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH NO_CACHE)
  if(NOT headers OR NOT ucp OR NOT ucs)
    message(FATAL_ERROR "OUTRIGGER_UCX_ROOT=${root} holds no UCX: include/ucp/api/ucp.h, lib/libucp.so and lib/libucs.so are "
                        "looked for. Name the prefix of an installed UCX, or leave it empty for the system's.")
  endif()
  file(STRINGS ${headers}/ucp/api/ucp_version.h lines REGEX "define UCP_API_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9]+([0-9]+);[^0-9]+([0-9]+)" "\\1.\\2" version "${lines}")
  if(version VERSION_LESS OUTRIGGER_UCX_LEAST)
    message(FATAL_ERROR "UCX ${version} in OUTRIGGER_UCX_ROOT=${root} is too old: ${OUTRIGGER_UCX_LEAST} or later is needed.")
  endif()
  message(STATUS "UCX ${version} in ${root}")
  foreach(library ucp ucs)
    add_library(outrigger_${library} SHARED IMPORTED GLOBAL)
    set_target_properties(outrigger_${library} PROPERTIES IMPORTED_LOCATION ${${library}}
                                                          INTERFACE_INCLUDE_DIRECTORIES ${headers})
  endforeach()
  target_link_libraries(outrigger_ucx INTERFACE outrigger_ucp outrigger_ucs)
  target_include_directories(outrigger_ucx_headers SYSTEM INTERFACE ${headers})
endfunction()

function(outrigger_system_ucx)
  pkg_check_modules(UCX IMPORTED_TARGET ucx>=${OUTRIGGER_UCX_LEAST})
  if(NOT UCX_FOUND)
    message(FATAL_ERROR "pkg-config knows no UCX from ${OUTRIGGER_UCX_LEAST} on. Install it (Debian: libucx-dev), or name the "
                        "prefix of one with -DOUTRIGGER_UCX_ROOT=PREFIX.")
  endif()
  target_link_libraries(outrigger_ucx INTERFACE PkgConfig::UCX)
  set(headers ${UCX_INCLUDE_DIRS})
  list(REMOVE_ITEM headers /usr/include) # searched anyway, and not to be searched earlier
  target_include_directories(outrigger_ucx_headers SYSTEM INTERFACE ${headers})
endfunction()

add_library(outrigger_ucx INTERFACE)
add_library(outrigger_ucx_headers INTERFACE) # for who finds its functions at run time
if(OUTRIGGER_UCX_ROOT)
  outrigger_given_ucx(${OUTRIGGER_UCX_ROOT})
else()
  outrigger_system_ucx()
endif()
