// Attachments of C programs. They belong to a thread, because C has no object to keep them in.
#include <memory>
#include <utility>

#include "baton/attachment.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

namespace {

struct Attached {
  const baton_proactor* proactor;
  baton::Attachment attachment;
  std::unique_ptr<Attached> next;
};

// A list: every thread pays for thread-local data, and a pointer is the smallest. A thread that
// ends is detached.
constinit thread_local std::unique_ptr<Attached> attached;

/// The link to it, or the last link, which is null.
std::unique_ptr<Attached>& find(const baton_proactor* proactor) {
  std::unique_ptr<Attached>* link = &attached;
  while (*link != nullptr && (*link)->proactor != proactor) link = &(*link)->next;
  return *link;
}

}  // namespace

void baton::capi::detach(const baton_proactor& proactor) noexcept {
  std::unique_ptr<Attached>& found = find(&proactor);
  if (found != nullptr) found = std::move(found->next);
}

int baton_attach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  if (find(proactor) != nullptr) return 0;
  try {
    std::unique_ptr<Attached> one{
        new Attached{proactor, baton::Attachment{proactor->proactor}, nullptr}};
    if (one->attachment.has_lane()) find(proactor) = std::move(one);
    return 0;
  } catch (...) {
    return baton::capi::code_of_exception();
  }
}

void baton_detach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  baton::capi::detach(*proactor);
}
