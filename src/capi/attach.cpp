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
  Attached* next;
};

// A list: every thread pays for thread-local data, and a pointer is the smallest. A thread that
// ends is detached. A function of atexit() may close a proactor after that: so it is null then.
constinit thread_local Attached* attached = nullptr;

/// The link to it, or the last link, which is null.
Attached*& find(const baton_proactor* proactor) {
  Attached** link = &attached;
  while (*link != nullptr && (*link)->proactor != proactor) link = &(*link)->next;
  return *link;
}

void detach_at(Attached*& link) noexcept { delete std::exchange(link, link->next); }

struct AtThreadEnd {
  ~AtThreadEnd() {
    while (attached != nullptr) detach_at(attached);
  }
};

}  // namespace

void baton::capi::detach(const baton_proactor& proactor) noexcept {
  Attached*& found = find(&proactor);
  if (found != nullptr) detach_at(found);
}

int baton_attach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  if (find(proactor) != nullptr) return 0;
  try {
    std::unique_ptr<Attached> one{
        new Attached{proactor, baton::Attachment{proactor->proactor}, nullptr}};
    static thread_local const AtThreadEnd at_thread_end;
    if (one->attachment.has_lane()) find(proactor) = one.release();
    return 0;
  } catch (...) {
    return baton::capi::code_of_exception();
  }
}

void baton_detach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  baton::capi::detach(*proactor);
}
