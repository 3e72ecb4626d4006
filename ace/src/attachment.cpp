#include "baton/ace/attachment.hpp"

#include "bridge.hpp"

namespace baton::ace {

struct Attachment::State {
  Bridge::Attached attached;
};

Attachment::Attachment(Proactor& proactor)
    : state_(new State{Bridge::Attached{proactor.bridge_}}) {}

Attachment::~Attachment() = default;

}  // namespace baton::ace
