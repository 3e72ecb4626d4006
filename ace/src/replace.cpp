#include <ace/POSIX_CB_Proactor.h>
#include <ace/POSIX_Proactor.h>
#include <ace/Version.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <typeinfo>

#include "baton/ace/attachment.hpp"
#include "baton/ace/proactor.hpp"
#include "baton/ace/timer_queue.hpp"
#include "preload.hpp"

namespace {

/// One of ACE's own, not a user's class derived from it.
bool is_stock(const ACE_Proactor_Impl& given) {
  const std::type_info& type = typeid(given);
  return type == typeid(ACE_POSIX_AIOCB_Proactor) || type == typeid(ACE_POSIX_CB_Proactor)
#ifdef ACE_HAS_POSIX_REALTIME_SIGNALS
         || type == typeid(ACE_POSIX_SIG_Proactor)
#endif
      ;
}

void explain(baton::ace::Proactor& made, const baton::ace::Options& options) {
  const std::string text = made.native().explain();
  std::fprintf(stderr, "baton-ace: ACE's Proactor runs on Baton (batch=%zu%s)\n%s\n", options.batch,
               options.lazy ? ", lazy" : "", text.c_str());
}

}  // namespace

extern "C" BATON_EXPORT unsigned baton_ace_version() { return ACE_VERSION_CODE; }

extern "C" BATON_EXPORT void* baton_ace_replace(void* given, char* reason, std::size_t size) {
  auto* const stock = static_cast<ACE_Proactor_Impl*>(given);
  if (stock != nullptr && !is_stock(*stock)) return nullptr;
  try {
    const auto options = baton::ace::Options::from_environment();
    if (!options) {
      std::snprintf(reason, size, "%s", options.error().reason.c_str());
      return nullptr;
    }
    auto* const made = new baton::ace::Proactor(baton::Config::from_environment(), *options);
    if (options->explain) explain(*made, *options);
    return static_cast<ACE_Proactor_Impl*>(made);
  } catch (const std::exception& error) {
    std::snprintf(reason, size, "%s", error.what());
    return nullptr;
  }
}

extern "C" BATON_EXPORT void* baton_ace_make_queue() {
  return static_cast<ACE_Proactor_Timer_Queue*>(new (std::nothrow) baton::ace::TimerQueue);
}

extern "C" BATON_EXPORT void* baton_ace_attach(void* made) {
  auto* const implementation = static_cast<ACE_Proactor_Impl*>(made);
  try {
    return new baton::ace::Attachment(dynamic_cast<baton::ace::Proactor&>(*implementation));
  } catch (const std::exception&) {
    return nullptr;  // it works without
  }
}

extern "C" BATON_EXPORT void baton_ace_detach(void* attached) {
  delete static_cast<baton::ace::Attachment*>(attached);
}

extern "C" BATON_EXPORT void baton_ace_delete(void* made, void* given, void* queue) {
  delete static_cast<ACE_Proactor_Impl*>(made);
  delete static_cast<ACE_Proactor_Impl*>(given);
  delete static_cast<ACE_Proactor_Timer_Queue*>(queue);
}
