// Preloaded before libACE: answers like a libACE of another version.
#include <ace/ACE.h>

ACE_BEGIN_VERSIONED_NAMESPACE_DECL

namespace ACE {

__attribute__((visibility("default"))) u_int major_version() { return 6; }
__attribute__((visibility("default"))) u_int minor_version() { return 5; }
__attribute__((visibility("default"))) u_int micro_version() { return 12; }

}  // namespace ACE

ACE_END_VERSIONED_NAMESPACE_DECL
