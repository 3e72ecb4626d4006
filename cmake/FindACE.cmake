# Finds ACE (Debian: libace-dev, libace-ssl-dev): ACE_FOUND, ACE_VERSION, and the targets ACE::ACE
# and, where its library is, ACE::SSL.
find_path(ACE_INCLUDE_DIR ace/ACE.h)
find_library(ACE_LIBRARY ACE)
find_library(ACE_SSL_LIBRARY ACE_SSL)
mark_as_advanced(ACE_INCLUDE_DIR ACE_LIBRARY ACE_SSL_LIBRARY)

if(ACE_INCLUDE_DIR AND EXISTS "${ACE_INCLUDE_DIR}/ace/Version.h")
  set(ACE_VERSION)
  foreach(part IN ITEMS MAJOR MINOR MICRO BETA)
    file(STRINGS "${ACE_INCLUDE_DIR}/ace/Version.h" line
         REGEX "^#define ACE_${part}(_VERSION)? [0-9]+")
    if(line MATCHES " ([0-9]+)")
      list(APPEND ACE_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN ACE_VERSION "." ACE_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ACE REQUIRED_VARS ACE_LIBRARY ACE_INCLUDE_DIR
                                      VERSION_VAR ACE_VERSION)
if(ACE_FOUND AND NOT TARGET ACE::ACE)
  add_library(ACE::ACE UNKNOWN IMPORTED GLOBAL)
  # As a system's header: ACE does not compile with this project's warnings.
  set_target_properties(ACE::ACE PROPERTIES IMPORTED_LOCATION "${ACE_LIBRARY}"
                                            INTERFACE_INCLUDE_DIRECTORIES "${ACE_INCLUDE_DIR}")
endif()
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(OpenSSL QUIET)
unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
if(ACE_FOUND AND ACE_SSL_LIBRARY AND OPENSSL_FOUND AND NOT TARGET ACE::SSL)
  add_library(ACE::SSL UNKNOWN IMPORTED GLOBAL)
  set_target_properties(ACE::SSL PROPERTIES IMPORTED_LOCATION "${ACE_SSL_LIBRARY}")
  set_property(TARGET ACE::SSL PROPERTY INTERFACE_LINK_LIBRARIES ACE::ACE OpenSSL::SSL)
endif()
