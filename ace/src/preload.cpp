// libbaton-ace-preload: brings Baton into programs that use ACE_Proactor and do not know Baton.
//
// libACE and programs reach the constructor, the destructor and the event loop of ACE_Proactor
// through the dynamic linker, so that these here come first. The constructor gives ACE's own
// constructor another implementation. The destructor deletes that implementation when ACE's timer
// thread has ended; ACE itself deletes it earlier, and a timer that fires then uses freed memory. A
// thread in the event loop drives until it leaves, so it is attached meanwhile. libACE deletes its
// singleton at the end of the program, when other threads may still be in the event loop, so this
// deletion is suppressed. This library does not link libACE: preloaded into a program without ACE
// it does nothing, and into one with another version it says so.
#include "preload.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "ace_symbols.hpp"  // their names, as the compiler has them: see ace/CMakeLists.txt

namespace {

using Construct = void (*)(void* self, void* implementation, bool delete_it, void* queue);
using Destroy = void (*)(void* self);
using Loop = int (*)(void* self, void* hook);
using TimedLoop = int (*)(void* self, void* time, void* hook);
using CloseSingleton = void (*)();
using Number = unsigned (*)();

int add_name(dl_phdr_info* object, std::size_t, void* names) {
  try {
    static_cast<std::vector<std::string>*>(names)->emplace_back(object->dlpi_name);
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;  // ends it
  }
}

/// For a plugin: its host may have loaded it, and libACE with it, so that the dynamic linker does
/// not show their names to other libraries (RTLD_LOCAL).
void* find_in_plugins(const char* name) {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&find_in_plugins), &here);
  std::vector<std::string> objects;
  ::dl_iterate_phdr(add_name, &objects);
  for (const std::string& object : objects) {
    if (object.empty() || object == here.dli_fname) continue;
    void* const library = ::dlopen(object.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const found = ::dlsym(library, name);
    ::dlclose(library);  // the program keeps it
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <class Function>
Function find(void* scope, const char* name) {
  void* const found = ::dlsym(scope, name);
  return reinterpret_cast<Function>(found != nullptr ? found : find_in_plugins(name));
}

template <class Function>
Function next(const char* name) {
  return find<Function>(RTLD_NEXT, name);
}

/// The version of the libACE that the program has.
unsigned program_version() {
  const auto major = find<Number>(RTLD_DEFAULT, BATON_ACE_MAJOR);
  const auto minor = find<Number>(RTLD_DEFAULT, BATON_ACE_MINOR);
  const auto micro = find<Number>(RTLD_DEFAULT, BATON_ACE_MICRO);
  if (major == nullptr || minor == nullptr || micro == nullptr) return 0;
  return (major() << 16) + (minor() << 8) + micro();
}

void say(const std::string& why) {
  std::fprintf(stderr, "baton-ace: %s; the program runs on ACE's own Proactor\n", why.c_str());
}

std::string in_words(unsigned version) {
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff) + "." +
         std::to_string(version & 0xff);
}

/// libbaton-ace, from the folder that this library is in.
class Library {
 public:
  static Library& instance() {
    static Library library;
    return library;
  }
  BatonAceReplace replace = nullptr;
  BatonAceMakeQueue make_queue = nullptr;
  BatonAceAttach attach = nullptr;
  BatonAceDetach detach = nullptr;
  BatonAceDelete remove = nullptr;
  BatonAceEnds ends = nullptr;

 private:
  Library() {
    if (program_version() != BATON_ACE_BUILT_FOR) {
      say("it was built for ACE " + in_words(BATON_ACE_BUILT_FOR) + ", and this is " +
          in_words(program_version()));
      return;
    }
    Dl_info here{};
    ::dladdr(reinterpret_cast<const void*>(&program_version), &here);
    std::string path = here.dli_fname != nullptr ? here.dli_fname : "";
    path = path.substr(0, path.find_last_of('/') + 1) + "libbaton-ace.so." BATON_ACE_MAJOR_VERSION;
    void* const loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) {
      say(::dlerror());
      return;
    }
    replace = reinterpret_cast<BatonAceReplace>(::dlsym(loaded, "baton_ace_replace"));
    make_queue = reinterpret_cast<BatonAceMakeQueue>(::dlsym(loaded, "baton_ace_make_queue"));
    attach = reinterpret_cast<BatonAceAttach>(::dlsym(loaded, "baton_ace_attach"));
    detach = reinterpret_cast<BatonAceDetach>(::dlsym(loaded, "baton_ace_detach"));
    remove = reinterpret_cast<BatonAceDelete>(::dlsym(loaded, "baton_ace_delete"));
    ends = reinterpret_cast<BatonAceEnds>(::dlsym(loaded, "baton_ace_ends"));
  }
};

/// The proactors with an implementation of ours, and the objects that are deleted with them.
struct Replaced {
  void* self;
  void* made;
  void* given;
  void* queue = nullptr;  // ours
  Replaced* next = nullptr;
};
std::mutex mutex;
Replaced* replaced = nullptr;

void construct(Construct original, void* self, void* given, bool delete_it, void* queue) {
  char reason[512] = "";
  const Library& library = Library::instance();
  void* const made =
      library.replace != nullptr ? library.replace(given, reason, sizeof(reason)) : nullptr;
  if (made == nullptr) {
    if (reason[0] != '\0') say(reason);
    return original(self, given, delete_it, queue);
  }
  auto* const note = new (std::nothrow) Replaced{self, made, delete_it ? given : nullptr};
  if (note == nullptr) {
    library.remove(made, nullptr, nullptr);
    say("memory is exhausted");
    return original(self, given, delete_it, queue);
  }
  // ACE's own queue answers its timer thread without a lock.
  void* const own_queue = queue == nullptr ? library.make_queue() : nullptr;
  note->queue = own_queue;
  {
    const std::lock_guard guard{mutex};
    note->next = replaced;
    replaced = note;
  }
  original(self, made, false, own_queue != nullptr ? own_queue : queue);
}

void destroy(Destroy original, void* self) {
  original(self);
  Replaced* found = nullptr;
  {
    const std::lock_guard guard{mutex};
    for (Replaced** place = &replaced; *place != nullptr; place = &(*place)->next) {
      if ((*place)->self != self) continue;
      found = *place;
      *place = found->next;
      break;
    }
  }
  if (found == nullptr) return;
  Library::instance().remove(found->made, found->given, found->queue);
  delete found;
}

/// True: libACE is ending with the program, so our objects stay until the process ends.
bool are_left_alone() {
  {
    const std::lock_guard guard{mutex};
    if (replaced == nullptr) return false;
  }
  return Library::instance().ends() != 0;
}

/// While one exists, the calling thread is in the event loop of a proactor with an implementation
/// of ours.
class InLoop {
 public:
  explicit InLoop(const void* self) {
    void* made = nullptr;
    {
      const std::lock_guard guard{mutex};
      for (const Replaced* each = replaced; each != nullptr; each = each->next) {
        if (each->self == self) made = each->made;
      }
    }
    if (made != nullptr) attached_ = Library::instance().attach(made);
  }
  ~InLoop() {
    if (attached_ != nullptr) Library::instance().detach(attached_);
  }
  InLoop(const InLoop&) = delete;
  InLoop& operator=(const InLoop&) = delete;

 private:
  void* attached_ = nullptr;
};

}  // namespace

#define BATON_ACE_EXPORT extern "C" __attribute__((visibility("default")))

BATON_ACE_EXPORT void baton_ace_c1(void*, void*, bool, void*) __asm__(BATON_ACE_C1);
BATON_ACE_EXPORT void baton_ace_c2(void*, void*, bool, void*) __asm__(BATON_ACE_C2);
BATON_ACE_EXPORT void baton_ace_d1(void*) __asm__(BATON_ACE_D1);
BATON_ACE_EXPORT void baton_ace_d2(void*) __asm__(BATON_ACE_D2);
BATON_ACE_EXPORT int baton_ace_loop(void*, void*) __asm__(BATON_ACE_LOOP);
BATON_ACE_EXPORT int baton_ace_timed_loop(void*, void*, void*) __asm__(BATON_ACE_TIMED_LOOP);
BATON_ACE_EXPORT void baton_ace_close_singleton() __asm__(BATON_ACE_CLOSE_SINGLETON);

void baton_ace_c1(void* self, void* given, bool delete_it, void* queue) {
  construct(next<Construct>(BATON_ACE_C1), self, given, delete_it, queue);
}
void baton_ace_c2(void* self, void* given, bool delete_it, void* queue) {
  construct(next<Construct>(BATON_ACE_C2), self, given, delete_it, queue);
}
void baton_ace_d1(void* self) { destroy(next<Destroy>(BATON_ACE_D1), self); }
void baton_ace_d2(void* self) { destroy(next<Destroy>(BATON_ACE_D2), self); }
int baton_ace_loop(void* self, void* hook) {
  const InLoop attached{self};
  return next<Loop>(BATON_ACE_LOOP)(self, hook);
}
int baton_ace_timed_loop(void* self, void* time, void* hook) {
  const InLoop attached{self};
  return next<TimedLoop>(BATON_ACE_TIMED_LOOP)(self, time, hook);
}
void baton_ace_close_singleton() {
  if (!are_left_alone()) next<CloseSingleton>(BATON_ACE_CLOSE_SINGLETON)();
}
