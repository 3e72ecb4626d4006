# Writes build_options.hpp, each time something is built, because a commit changes no file that a
# build looks at. The file is written only if its content has changed.
#
#   cmake -D SOURCE=DIR -D OPTIONS=TEXT -D OUT=FILE -P BuildOptions.cmake

# The tree's own repository: not one around an unpacked archive.
set(source)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix RESULT_VARIABLE status
                  OUTPUT_VARIABLE inside ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0 AND inside STREQUAL "")
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --tags --always --dirty=,\ changed
                    OUTPUT_VARIABLE source ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
endif()
set(options "${OPTIONS}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_options.hpp.in ${OUT} @ONLY)
