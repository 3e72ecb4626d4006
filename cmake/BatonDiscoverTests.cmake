# Read by ctest, not by cmake: lists the tests of one GoogleTest program each time ctest starts.
#
# The tests of one parameter, or of one suite that has none, are one test of ctest, in one process:
# most of a process's time is its start, ten times that of a test and more with a sanitizer.
# tools/sum_results.py counts the tests themselves. With BATON_TEST_ALONE=1 each is one of ctest's:
# `BATON_TEST_ALONE=1 ctest -R 'core_test/LedgerTest[.]'`.
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
  set(groups)
  foreach(line IN LISTS lines)
    if(line MATCHES "^  ([^ ]+)$" AND suite)
      set(test "${CMAKE_MATCH_1}")
      set(alone "${suite}.${test}")
      # A disabled test is counted as left out.
      if(DEFINED ENV{BATON_TEST_ALONE} OR test_serial OR alone MATCHES "(^|[./])DISABLED_")
        baton_add_discovered_test("${alone}" "${alone}" ${test_timeout})
      else()
        if(test MATCHES "/(.*)$")
          set(group "${CMAKE_MATCH_1}")
          set(filter "${suite}.*/${group}")
        else()
          set(group "${suite}")
          set(filter "${suite}.*")
        endif()
        # Those of a parameter that wait are apart from those that work.
        if(test_waiting AND NOT test_waiting STREQUAL "." AND "${suite}." MATCHES "${test_waiting}")
          string(APPEND group ".waiting")
        endif()
        list(APPEND groups "${group}")
        list(APPEND "filters_${group}" "${filter}")
      endif()
    elseif(line MATCHES "^([^ ]+)\\.$")
      set(suite "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    list(REMOVE_DUPLICATES "filters_${group}")
    list(JOIN "filters_${group}" ":" filter)
    math(EXPR timeout "5 * ${test_timeout}")
    baton_add_discovered_test("${group}" "${filter}" ${timeout})
  endforeach()
endfunction()

function(baton_add_discovered_test test filter timeout)
  set(name "${test_prefix}/${test}")
  add_test("${name}" "${test_program}" "--gtest_filter=${filter}")
  set(slots 2)
  if(test_waiting AND filter MATCHES "${test_waiting}")
    set(slots 1)
  endif()
  set_tests_properties("${name}" PROPERTIES TIMEOUT ${timeout} LABELS "${test_labels}"
                                            RUN_SERIAL ${test_serial} PROCESSORS ${slots})
  # Long tests begin first. Each engine of linux_aio that is closed waits 40 ms in io_destroy.
  if(filter MATCHES "linux_aio")
    set_tests_properties("${name}" PROPERTIES COST 100)
  endif()
  if(test MATCHES "(^|[./])DISABLED_")
    set_tests_properties("${name}" PROPERTIES DISABLED TRUE)
  endif()
endfunction()

baton_discover_tests()
