// The functions of libbaton-ace that libbaton-ace-preload uses. It loads libbaton-ace when the
// first ACE_Proactor is made. They have C names, because dlsym looks them up.
#pragma once

#include <cstddef>

extern "C" {

/// The version of ACE that the library was built for: 7.0.8 is 0x070008.
using BatonAceVersion = unsigned (*)();
/// An implementation (ACE_Proactor_Impl*) in place of `given`: null when that is not a stock one.
/// On failure null, and a sentence in `reason`.
using BatonAceReplace = void* (*)(void* given, char* reason, std::size_t size);
/// A timer queue (ACE_Proactor_Timer_Queue*) for a proactor that has none of its own; null when
/// memory is exhausted.
using BatonAceMakeQueue = void* (*)();
/// Keeps the calling thread with the implementation that baton_ace_replace has made, while it is in
/// ACE's event loop; null when that cannot be. The end of it, by the same thread.
using BatonAceAttach = void* (*)(void* made);
using BatonAceDetach = void (*)(void* attached);
/// Deletes what baton_ace_replace and baton_ace_make_queue have made, and `given`; null is nothing.
/// At the end of the program it leaves them, because threads may still be in the event loop.
using BatonAceDelete = void (*)(void* made, void* given, void* queue);
/// 1: the program ends, and libACE with it.
using BatonAceEnds = int (*)();
}
