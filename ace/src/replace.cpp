#include <ace/POSIX_CB_Proactor.h>
#include <ace/POSIX_Proactor.h>
#include <ace/Version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>

#include "baton/ace/attachment.hpp"
#include "baton/ace/proactor.hpp"
#include "baton/ace/timer_queue.hpp"
#include "baton/registry.hpp"
#include "ending.hpp"
#include "preload.hpp"

namespace {

/// The implementation is one of ACE's own classes, not a class that a user has derived.
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

/// An engine that does only files is meant to be one of a team.
bool does_only_files(const baton::Proactor& made) {
  const auto engines = baton::registry().engines();
  const auto& processors = made.config().processors;
  return std::all_of(processors.begin(), processors.end(), [&](const auto& processor) {
    return std::any_of(engines.begin(), engines.end(), [&](const auto& engine) {
      return engine.name == processor.engine && engine.files_only;
    });
  });
}

/// ACE's timer thread takes locks when it begins, and libACE deletes these locks when it ends. So
/// exit() waits until the thread has begun, which its first access to the queue shows.
class PreloadedQueue final : public baton::ace::TimerQueue {
 public:
  PreloadedQueue() {
    static const int registered = std::atexit(await_all);
    static_cast<void>(registered);
    const std::lock_guard guard{mutex_of_all};
    next_ = std::exchange(all, this);
  }
  ~PreloadedQueue() override {
    const std::lock_guard guard{mutex_of_all};
    PreloadedQueue** place = &all;
    while (*place != this) place = &(*place)->next_;
    *place = next_;
  }
  PreloadedQueue(const PreloadedQueue&) = delete;
  PreloadedQueue& operator=(const PreloadedQueue&) = delete;

  [[nodiscard]] bool is_empty() const override {
    begun_.store(true, std::memory_order_relaxed);
    return TimerQueue::is_empty();
  }

 private:
  /// Gives up after a while, because a thread that could not be made never begins.
  static void await_all() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{1};
    const std::lock_guard guard{mutex_of_all};
    for (const PreloadedQueue* each = all; each != nullptr; each = each->next_) {
      while (!each->begun_.load(std::memory_order_relaxed) &&
             std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::microseconds{100});
      }
    }
  }

  static std::mutex mutex_of_all;
  static PreloadedQueue* all;
  PreloadedQueue* next_ = nullptr;
  mutable std::atomic<bool> begun_{false};
};
constinit std::mutex PreloadedQueue::mutex_of_all;
constinit PreloadedQueue* PreloadedQueue::all = nullptr;

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
    if (does_only_files(made->native())) {
      std::fprintf(stderr,
                   "baton-ace: engine=%s does only files; every start on a socket fails with "
                   "EOPNOTSUPP (use engine=emulated or engine=io_uring)\n",
                   made->native().config().processors.front().engine.c_str());
    }
    return static_cast<ACE_Proactor_Impl*>(made);
  } catch (const std::exception& error) {
    std::snprintf(reason, size, "%s", error.what());
    return nullptr;
  }
}

extern "C" BATON_EXPORT void* baton_ace_make_queue() {
  return static_cast<ACE_Proactor_Timer_Queue*>(new (std::nothrow) PreloadedQueue);
}

extern "C" BATON_EXPORT void* baton_ace_attach(void* made) {
  auto* const implementation = static_cast<ACE_Proactor_Impl*>(made);
  try {
    return new baton::ace::Attachment(dynamic_cast<baton::ace::Proactor&>(*implementation));
  } catch (const std::exception&) {
    return nullptr;  // ACE's own queue works as well
  }
}

extern "C" BATON_EXPORT void baton_ace_detach(void* attached) {
  delete static_cast<baton::ace::Attachment*>(attached);
}

extern "C" BATON_EXPORT void baton_ace_delete(void* made, void* given, void* queue) {
  if (baton::ace::program_ends()) return;
  delete static_cast<ACE_Proactor_Impl*>(made);
  delete static_cast<ACE_Proactor_Impl*>(given);
  delete static_cast<ACE_Proactor_Timer_Queue*>(queue);
}

extern "C" BATON_EXPORT int baton_ace_ends() { return baton::ace::ace_ends() ? 1 : 0; }
