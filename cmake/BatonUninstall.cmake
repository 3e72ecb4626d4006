# Removes the files of the last installation - the conformance kit's, if it was installed, too - and
# the folders that are ours and empty afterwards.
# REQUIRES -D MANIFEST=<build>/install_manifest.txt; DESTDIR as at installation.

if(NOT EXISTS "${MANIFEST}")
  message(FATAL_ERROR "nothing to uninstall: ${MANIFEST} does not exist (install first)")
endif()
file(STRINGS "${MANIFEST}" files)
# Each component that is installed by itself leaves a list of its own.
get_filename_component(build "${MANIFEST}" DIRECTORY)
set(kit_manifest "${build}/install_manifest_conformance.txt")
if(EXISTS "${kit_manifest}")
  file(STRINGS "${kit_manifest}" kit_files)
  list(APPEND files ${kit_files})
endif()
set(folders)
foreach(file IN LISTS files)
  set(path "$ENV{DESTDIR}${file}")
  if(EXISTS "${path}" OR IS_SYMLINK "${path}")
    message(STATUS "removing ${path}")
    file(REMOVE "${path}")
  endif()
  get_filename_component(folder "${path}" DIRECTORY)
  list(APPEND folders "${folder}")
endforeach()

# Folders named after us, and what is below them, deepest first: lib, include and man belong to
# everybody.
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
  file(GLOB rest "${folder}/*")
  if(NOT rest AND IS_DIRECTORY "${folder}" AND folder MATCHES "/[Bb]aton$|/include/baton/")
    file(REMOVE_RECURSE "${folder}")
  endif()
endforeach()
file(REMOVE "${MANIFEST}" "${kit_manifest}")
