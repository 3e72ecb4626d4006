// Attachments of C programs: of a thread, which has no object to keep them in.
#include <algorithm>
#include <memory>
#include <vector>

#include "baton/attachment.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

namespace {

struct Attached {
  const baton_proactor* proactor;
  std::unique_ptr<baton::Attachment> attachment;
};

// A thread that ends is detached.
thread_local std::vector<Attached> attached;

auto find(const baton_proactor* proactor) {
  return std::find_if(attached.begin(), attached.end(),
                      [&](const Attached& one) { return one.proactor == proactor; });
}

}  // namespace

void baton::capi::detach(const baton_proactor& proactor) noexcept {
  const auto found = find(&proactor);
  if (found != attached.end()) attached.erase(found);
}

int baton_attach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  if (find(proactor) != attached.end()) return 0;
  try {
    attached.reserve(attached.size() + 1);
    auto attachment = std::make_unique<baton::Attachment>(proactor->proactor);
    if (attachment->has_lane()) attached.push_back({proactor, std::move(attachment)});
    return 0;
  } catch (...) {
    return baton::capi::code_of_exception();
  }
}

void baton_detach(baton_proactor* proactor) {
  const baton::capi::Inside inside;
  baton::capi::detach(*proactor);
}
