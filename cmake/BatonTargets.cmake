# Helpers for the CMakeLists.txt of the folders.

# Folders arrive one after the other while the library grows.
macro(baton_add_subdirectory_if_present dir)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt")
    add_subdirectory(${dir})
  endif()
endmacro()

# baton_add_program(NAME name SOURCES a.cpp... [LIBS lib...] [FOLDER bin])
# A program of ours. It links the static library and sees src/, so that tests, tools and benchmarks
# may reach inside; examples do without (they link Baton::baton by hand). FOLDER is where it is
# built, relative to the build tree.
function(baton_add_program)
  cmake_parse_arguments(ARG "" "NAME;FOLDER" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER bin)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  baton_target_defaults(${ARG_NAME})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                               ${PROJECT_BINARY_DIR}/${ARG_FOLDER})
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${ARG_NAME} PRIVATE baton_static ${ARG_LIBS} Threads::Threads)
endfunction()

# baton_add_test(NAME name SOURCES a.cpp... [LABELS l...] [LIBS lib...])
# A GoogleTest program; each of its tests becomes a ctest test `name/Suite.Test`. Which tests exist
# may depend on the machine (engines that are present) and on BATON_TEST_MATRIX, so they are
# listed when ctest starts, not when the program is built.
function(baton_add_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LABELS;LIBS" ${ARGN})
  baton_add_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} GTest::gtest
                    GTest::gtest_main FOLDER tests)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  # gtest_discover_tests flattens lists; one more level of quoting carries several labels through.
  list(JOIN ARG_LABELS "\\;" labels)
  gtest_discover_tests(
    ${ARG_NAME}
    TEST_PREFIX "${ARG_NAME}/"
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 120 LABELS "${labels}")
endfunction()
