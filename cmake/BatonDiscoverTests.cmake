# Read by ctest, not by cmake: lists the tests of one GoogleTest program each time ctest starts.
#
# CMake's own gtest_discover_tests keeps its list until the program is built again, but ours depends
# on more than the program: BATON_TEST_MATRIX and what the machine offers. It also passes only one
# label through.
#
# REQUIRES, set by the file that baton_add_test() writes: test_program, test_prefix, test_labels,
# test_timeout, test_serial, test_waiting.

# A program that is missing or cannot list its tests is a failed test, never a silent gap.
function(baton_discover_tests)
  if(NOT EXISTS "${test_program}")
    add_test("${test_prefix}/not_built" "${test_program}")
    return()
  endif()
  execute_process(COMMAND "${test_program}" --gtest_list_tests OUTPUT_VARIABLE listing
                  RESULT_VARIABLE result TIMEOUT 60)
  if(NOT result EQUAL 0)
    add_test("${test_prefix}/cannot_list_its_tests" "${test_program}" --gtest_list_tests)
    return()
  endif()

  # Two kinds of line: "Suite." and, below it, "  Test"; both may end in a comment that shows the
  # parameter. The output may begin with lines of gtest_main. A parameter may contain anything, and
  # list separators and brackets would end up in the middle of a list: comments go first.
  string(REGEX REPLACE " +#[^\n]*" "" listing "${listing}")
  string(REGEX REPLACE "[][;]" "_" listing "${listing}")
  string(REPLACE "\n" ";" lines "${listing}")
  set(suite)
  foreach(line IN LISTS lines)
    if(line MATCHES "^  ([^ ]+)$" AND suite)
      baton_add_discovered_test("${suite}.${CMAKE_MATCH_1}")
    elseif(line MATCHES "^([^ ]+)\\.$")
      set(suite "${CMAKE_MATCH_1}")
    endif()
  endforeach()
endfunction()

function(baton_add_discovered_test test)
  set(name "${test_prefix}/${test}")
  add_test("${name}" "${test_program}" "--gtest_filter=${test}")
  set(slots 2)
  if(test_waiting AND test MATCHES "${test_waiting}")
    set(slots 1)
  endif()
  set_tests_properties(
    "${name}" PROPERTIES TIMEOUT ${test_timeout} LABELS "${test_labels}" RUN_SERIAL ${test_serial}
                         PROCESSORS ${slots}
                         SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  if(test MATCHES "(^|[./])DISABLED_")
    set_tests_properties("${name}" PROPERTIES DISABLED TRUE)
  endif()
endfunction()

baton_discover_tests()
