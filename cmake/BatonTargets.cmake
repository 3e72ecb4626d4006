# Helpers for the CMakeLists.txt of the folders.

# Folders arrive one after the other while the library grows.
macro(baton_add_subdirectory_if_present dir)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt")
    add_subdirectory(${dir})
  endif()
endmacro()

# baton_add_counts(target): in a coverage build, what a process of this program has counted counts
# also when it ends by abort or _exit (tests/support/counts_at_end.c).
function(baton_add_counts target)
  if(BATON_COVERAGE)
    target_link_libraries(${target} PRIVATE baton_counts_at_end)
  endif()
endfunction()

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
  baton_add_counts(${ARG_NAME})
endfunction()

# baton_quick_build(target): not optimised under a sanitizer, whose checks take the optimiser twice
# the time of all the rest. For what is around the library: tests, tools and harnesses.
function(baton_quick_build target)
  if(BATON_SANITIZE AND NOT BATON_FUZZ)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# baton_test_defaults(target): tests check the library, which stays as it is for users; they
# themselves are compiled quickly.
function(baton_test_defaults target)
  baton_quick_build(${target})
  if(NOT BATON_SANITIZE)
    target_compile_options(${target} PRIVATE
                           $<$<CONFIG:Release>:-O0$<SEMICOLON>-U_FORTIFY_SOURCE>)
  endif()
endfunction()

# baton_add_test(NAME name SOURCES a.cpp... [LABELS l...] [LIBS lib...] [TIMEOUT seconds] [SERIAL]
#                [WAITING regex])
# A GoogleTest program; its tests become tests of ctest (BatonDiscoverTests.cmake says which belong
# together), with every label given ("unit" if none). Which tests exist is asked when ctest starts.
# One that runs longer than TIMEOUT (240 s), or several that run five times longer, have failed.
# SERIAL is for tests that measure time or load: they run alone, each by itself.
# scripts/test gives ctest six slots for each processor. A test takes two of them; those whose
# names match WAITING mostly wait: they take one.
function(baton_add_test)
  cmake_parse_arguments(ARG "SERIAL" "NAME;TIMEOUT;WAITING" "SOURCES;LABELS;LIBS" ${ARGN})
  baton_add_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} GTest::gtest
                    GTest::gtest_main FOLDER tests)
  baton_test_defaults(${ARG_NAME})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 240)
  endif()
  set(list_file "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}_list.cmake")
  file(
    GENERATE
    OUTPUT "${list_file}"
    CONTENT
      "set(test_program [==[$<TARGET_FILE:${ARG_NAME}>]==])
set(test_prefix ${ARG_NAME})
set(test_labels [==[${ARG_LABELS}]==])
set(test_timeout ${ARG_TIMEOUT})
set(test_serial ${ARG_SERIAL})
set(test_waiting [==[${ARG_WAITING}]==])
include([==[${PROJECT_SOURCE_DIR}/cmake/BatonDiscoverTests.cmake]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${list_file}")
endfunction()

# baton_add_products(target folder... [EXCEPT folder... target...])
# Everything built in these folders and below, as one target: scripts/build builds the products
# and leaves the tests alone.
function(baton_add_products target)
  cmake_parse_arguments(ARG "" "" EXCEPT ${ARGN})
  set(folders ${ARG_UNPARSED_ARGUMENTS})
  while(folders)
    list(POP_FRONT folders folder)
    if(folder IN_LIST ARG_EXCEPT)
      continue()
    endif()
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    get_property(nested DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${nested})
    list(REMOVE_ITEM targets ${ARG_EXCEPT})
    if(targets)
      add_dependencies(${target} ${targets})
    endif()
  endwhile()
endfunction()
