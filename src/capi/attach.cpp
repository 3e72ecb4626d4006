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
  const Instance* instance;
  Attachment attachment;
  Attached* next;
};

namespace {

/// The link to it, or the last link, which is null.
Attached*& link_to(const Instance* instance) {
  Attached** link = &attached;
  while (*link != nullptr && (*link)->instance != instance) link = &(*link)->next;
  return *link;
}

void detach_at(Attached*& link) noexcept { delete std::exchange(link, link->next); }

}  // namespace

void detach(const Instance& instance) noexcept {
  Attached*& found = link_to(&instance);
  if (found != nullptr) detach_at(found);
}

void detach_all() noexcept {
  while (attached != nullptr) detach_at(attached);
}

}  // namespace baton::capi

int baton_attach(baton_proactor* proactor) {
  using namespace baton::capi;
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (link_to(self) != nullptr) return 0;
  try {
    if (!detach_at_thread_end()) return ENOMEM;
    auto one =
        std::unique_ptr<Attached>(new Attached{self, baton::Attachment{self->proactor}, nullptr});
    if (one->attachment.has_lane()) link_to(self) = one.release();
    return 0;
  } catch (...) {
    return code_of_exception();
  }
}

void baton_detach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  const auto* const self = baton::capi::find(proactor);
  if (self != nullptr) baton::capi::detach(*self);
}
