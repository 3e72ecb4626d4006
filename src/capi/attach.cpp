// Attachments of C programs. They belong to a thread, because C has no object to keep them in.
#include <cerrno>
#include <memory>
#include <utility>

#include "baton/attachment.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "capi/thread.hpp"

namespace baton::capi {

struct Attached {
  const baton_proactor* proactor;
  Attachment attachment;
  Attached* next;
};

namespace {

/// The link to it, or the last link, which is null.
Attached*& find(const baton_proactor* proactor) {
  Attached** link = &attached;
  while (*link != nullptr && (*link)->proactor != proactor) link = &(*link)->next;
  return *link;
}

void detach_at(Attached*& link) noexcept { delete std::exchange(link, link->next); }

}  // namespace

void detach(const baton_proactor& proactor) noexcept {
  Attached*& found = find(&proactor);
  if (found != nullptr) detach_at(found);
}

void detach_all() noexcept {
  while (attached != nullptr) detach_at(attached);
}

}  // namespace baton::capi

int baton_attach(baton_proactor* proactor) {
  using namespace baton::capi;
  const Inside inside;
  if (find(proactor) != nullptr) return 0;
  try {
    if (!detach_at_thread_end()) return ENOMEM;
    auto one = std::unique_ptr<Attached>(
        new Attached{proactor, baton::Attachment{proactor->proactor}, nullptr});
    if (one->attachment.has_lane()) find(proactor) = one.release();
    return 0;
  } catch (...) {
    return code_of_exception();
  }
}

void baton_detach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  baton::capi::detach(*proactor);
}
