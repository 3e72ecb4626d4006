// Attachment: holds a thread's membership in a Crew between its calls.
#include "baton/attachment.hpp"

#include "core/core.hpp"

namespace baton {

Attachment::Attachment(Proactor& proactor) : member_(proactor.core().attach()) {}

Attachment::~Attachment() = default;

}  // namespace baton
