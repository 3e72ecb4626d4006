// Attachment: what a thread keeps of a Crew between its calls.
#include "baton/attachment.hpp"

#include "core/core.hpp"

namespace baton {

Attachment::Attachment(Proactor& proactor) : member_(proactor.core().attach()) {}

Attachment::~Attachment() = default;

}  // namespace baton
