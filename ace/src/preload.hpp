// The functions of libbaton-ace that libbaton-ace-preload uses. It loads libbaton-ace when the
// first ACE_Proactor is made. They have C names, because dlsym looks them up.
#pragma once

#include <cstddef>

extern "C" {

/// The version of ACE that the library was built for: 7.0.8 is 0x070008.
using BatonAceVersion = unsigned (*)();
/// Returns an implementation (ACE_Proactor_Impl*) to use in place of `given`; null if that is not a
/// stock one. On failure null, and a sentence in `reason`.
using BatonAceReplace = void* (*)(void* given, char* reason, std::size_t size);
/// A timer queue (ACE_Proactor_Timer_Queue*) for a proactor that has none of its own; null when
/// memory is exhausted.
using BatonAceMakeQueue = void* (*)();
/// Attaches the calling thread to the implementation that baton_ace_replace has made, while the
/// thread is in ACE's event loop; null if that is impossible. The same thread detaches.
using BatonAceAttach = void* (*)(void* made);
using BatonAceDetach = void (*)(void* attached);
/// Deletes what baton_ace_replace and baton_ace_make_queue have made, and `given`; each may be
/// null. At the end of the program it leaves them, because threads may still be in the event loop.
using BatonAceDelete = void (*)(void* made, void* given, void* queue);
/// 1: the program is ending, and libACE with it.
using BatonAceEnds = int (*)();
}
