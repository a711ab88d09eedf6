# cmake --install: a relocatable tree. Files find each other by relative paths.
#
#   bin/          outrigger, outriggerd, outrigger-sim
#   lib/          the preload libraries; the C API where there is one, with pkgconfig/ and cmake/
#   lib/outrigger/     bench/ and examples/, by MPI. Packages may add ucx/ and vendor/ (Python packages)
#   share/outrigger/   python/ (the command line) and its requirements.txt
#                      clusters/, for `lab predict`
#                      examples/ as source
#                      monitoring/, for Prometheus and Grafana
#   share/man, completions, modulefiles, doc; lib/systemd/system
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(outrigger_share ${CMAKE_INSTALL_DATAROOTDIR}/outrigger)
set(outrigger_private ${CMAKE_INSTALL_LIBDIR}/outrigger)
set(outrigger_docs ${CMAKE_INSTALL_DATAROOTDIR}/doc/outrigger)
set(OUTRIGGER_UNIT_DIR lib/systemd/system CACHE STRING "Where systemd's units go")

# outrigger_way(RESULT FROM TO): relative path from one directory of the tree to another.
function(outrigger_way result from to)
  foreach(end IN ITEMS from to)
    cmake_path(ABSOLUTE_PATH ${end} BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} NORMALIZE)
  endforeach()
  cmake_path(RELATIVE_PATH to BASE_DIRECTORY ${from} OUTPUT_VARIABLE way)
  set(${result} ${way} PARENT_SCOPE)
endfunction()

set(module_directory ${CMAKE_INSTALL_DATAROOTDIR}/modulefiles/outrigger)
outrigger_way(outrigger_share_from_bin ${CMAKE_INSTALL_BINDIR} ${outrigger_share})
outrigger_way(outrigger_private_from_bin ${CMAKE_INSTALL_BINDIR} ${outrigger_private})
outrigger_way(outrigger_prefix_from_share ${outrigger_share} .)
outrigger_way(outrigger_bin_from_share ${outrigger_share} ${CMAKE_INSTALL_BINDIR})
outrigger_way(outrigger_lib_from_share ${outrigger_share} ${CMAKE_INSTALL_LIBDIR})
outrigger_way(outrigger_private_from_share ${outrigger_share} ${outrigger_private})
outrigger_way(outrigger_prefix_from_module ${module_directory} .)
outrigger_way(outrigger_prefix_from_pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig .)
outrigger_way(outrigger_lib_from_bin ${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_LIBDIR})

set(made ${CMAKE_BINARY_DIR}/install)
set(packaging ${PROJECT_SOURCE_DIR}/packaging)

# --- programs and libraries -------------------------------------------------------------------------------------------

# A package's own UCX is there; otherwise the system's is found in the usual way.
set_target_properties(outriggerd PROPERTIES INSTALL_RPATH
                                            "$ORIGIN/${outrigger_lib_from_bin};$ORIGIN/${outrigger_lib_from_bin}/outrigger/ucx")
install(TARGETS outriggerd outrigger-sim RUNTIME)
foreach(target IN ITEMS outrigger_preload_openmpi outrigger_preload_mpich outrigger_preload_mpiabi outrigger_heap)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

# The programs of outrigger_mpi_program in these two directories. Those for mpiabi exist only on request. Those in Fortran
# are not installed: gfortran always writes source paths into programs.
get_property(outrigger_mpi_programs GLOBAL PROPERTY OUTRIGGER_MPI_PROGRAMS)
foreach(target IN LISTS outrigger_mpi_programs)
  get_target_property(directory ${target} OUTRIGGER_DIRECTORY)
  get_target_property(language ${target} OUTRIGGER_LANGUAGE)
  if(directory MATCHES "^(bench|examples)/" AND NOT language STREQUAL fortran)
    set(optional "")
    get_target_property(only_by_name ${target} EXCLUDE_FROM_ALL)
    if(only_by_name)
      set(optional OPTIONAL)
    endif()
    outrigger_way(outrigger_lib_from_program ${outrigger_private}/${directory} ${CMAKE_INSTALL_LIBDIR})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${outrigger_lib_from_program}")
    install(TARGETS ${target} RUNTIME DESTINATION ${outrigger_private}/${directory} ${optional})
  endif()
endforeach()

# --- the command line -------------------------------------------------------------------------------------------------

configure_file(${packaging}/outrigger.in ${made}/outrigger @ONLY)
configure_file(${packaging}/layout.json.in ${made}/layout.json @ONLY)
install(PROGRAMS ${made}/outrigger TYPE BIN)
install(FILES ${made}/layout.json DESTINATION ${outrigger_share})
install(
  DIRECTORY python/outrigger
  DESTINATION ${outrigger_share}/python
  PATTERN "__pycache__" EXCLUDE)
install(
  DIRECTORY examples/api examples/cg examples/fft3d examples/training
  DESTINATION ${outrigger_share}/examples
  FILES_MATCHING
  PATTERN "*.py"
  PATTERN "__pycache__" EXCLUDE)

# The programs themselves generate manual pages, completions and the list of Python packages.
find_program(OUTRIGGER_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin NO_CMAKE_PATH
             DOC "A Python that has what the command line needs: it writes manual pages and completions")
set(OUTRIGGER_PYTHONPATH "" CACHE STRING "Where that Python finds what it has not by itself")
set(python_path ${PROJECT_SOURCE_DIR}/python)
if(OUTRIGGER_PYTHONPATH)
  string(APPEND python_path ":${OUTRIGGER_PYTHONPATH}")
endif()
set(can_write_pages FALSE)
set(pages ${made}/pages)
if(OUTRIGGER_PAGES)
  set(pages ${OUTRIGGER_PAGES})
elseif(OUTRIGGER_PYTHON AND NOT CMAKE_CROSSCOMPILING)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${python_path} ${OUTRIGGER_PYTHON} -c "import outrigger.cli; outrigger.cli.make_app()"
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(can_write_pages TRUE)
  endif()
endif()
if(can_write_pages)
  file(GLOB_RECURSE package CONFIGURE_DEPENDS python/outrigger/*.py)
  add_custom_command(
    OUTPUT ${made}/pages.stamp
    COMMAND
      ${CMAKE_COMMAND} -E env PYTHONPATH=${python_path} ${OUTRIGGER_PYTHON}
      ${PROJECT_SOURCE_DIR}/scripts/pages.py --out ${made}/pages --daemon $<TARGET_FILE:outriggerd> --sim
      $<TARGET_FILE:outrigger-sim>
    COMMAND ${CMAKE_COMMAND} -E touch ${made}/pages.stamp
    DEPENDS ${package} scripts/pages.py scripts/completions.py pyproject.toml outriggerd outrigger-sim
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    VERBATIM)
  add_custom_target(outrigger_pages ALL DEPENDS ${made}/pages.stamp)
endif()
if(can_write_pages OR OUTRIGGER_PAGES)
  install(DIRECTORY ${pages}/man/ TYPE MAN)
  install(FILES ${pages}/requirements.txt DESTINATION ${outrigger_share})
  install(FILES ${pages}/outrigger.bash DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME outrigger)
  install(FILES ${pages}/_outrigger DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions)
  install(FILES ${pages}/outrigger.fish DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d)
else()
  message(STATUS "Neither manual pages nor completions: no Python has what the command line needs (./dev setup)")
endif()

# --- for modules, compilers, systemd ----------------------------------------------------------------------------------

configure_file(${packaging}/module/outrigger.tcl.in ${made}/module.tcl @ONLY)
configure_file(${packaging}/module/outrigger.lua.in ${made}/module.lua @ONLY)
install(FILES ${made}/module.tcl DESTINATION ${module_directory} RENAME ${PROJECT_VERSION})
# Lmod reads both, and would list the version twice if they were in one place.
install(FILES ${made}/module.lua DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/lmod/outrigger RENAME ${PROJECT_VERSION}.lua)

set(outrigger_pc_libs "")
if(TARGET outrigger_api_shared)
  set(outrigger_pc_libs "-L\${libdir} -loutrigger")
  foreach(kind IN ITEMS shared static)
    set_target_properties(outrigger_api_${kind} PROPERTIES EXPORT_NAME outrigger_${kind})
    set_property(TARGET outrigger_api_${kind} PROPERTY INTERFACE_INCLUDE_DIRECTORIES
                          $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
  set_target_properties(outrigger_api_shared PROPERTIES EXPORT_NAME outrigger)
  set_property(TARGET outrigger_group PROPERTY INTERFACE_INCLUDE_DIRECTORIES
                      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(outrigger_group PROPERTIES EXPORT_NAME group)
  install(TARGETS outrigger_api_shared outrigger_api_static outrigger_group EXPORT outriggerTargets)
  install(EXPORT outriggerTargets NAMESPACE outrigger:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outrigger)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/include)
  install(DIRECTORY include/ TYPE INCLUDE)
endif()
configure_file(${packaging}/outrigger.pc.in ${made}/outrigger.pc @ONLY)
install(FILES ${made}/outrigger.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_package_config_file(${packaging}/outriggerConfig.cmake.in ${made}/outriggerConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outrigger)
write_basic_package_version_file(${made}/outriggerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${made}/outriggerConfig.cmake ${made}/outriggerConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outrigger)

# The prefix may only be known when it is installed.
install(
  CODE "
  set(outrigger_bin \"${CMAKE_INSTALL_BINDIR}\")
  cmake_path(ABSOLUTE_PATH outrigger_bin BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
  configure_file(\"${packaging}/systemd/outriggerd-dpu@.service.in\" \"${made}/outriggerd-dpu@.service\" @ONLY)")
install(FILES packaging/systemd/outriggerd-dpu.socket ${made}/outriggerd-dpu@.service DESTINATION ${OUTRIGGER_UNIT_DIR})
install(PROGRAMS packaging/systemd/outriggerd-by-socket TYPE BIN)
install(FILES packaging/systemd/outriggerd-by-socket.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)

install(DIRECTORY clusters packaging/monitoring DESTINATION ${outrigger_share})

install(FILES LICENSE README.md DESTINATION ${outrigger_docs})
install(DIRECTORY docs/ DESTINATION ${outrigger_docs}/docs)
