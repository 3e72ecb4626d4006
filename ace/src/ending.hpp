// The end of the program: other threads may still be in the event loop when exit() runs, and libACE
// closes its singleton then.
#pragma once

namespace baton::ace {

/// Registers a function that makes program_ends() true. It runs before the destructors of the
/// static objects that exist at the registration. So this is called twice: for the first bridge,
/// which may be part of a static object, and before the first operation or posted result can reach
/// a handler.
void expect_end(bool handlers_follow) noexcept;
/// exit() has been called.
bool program_ends() noexcept;
/// libACE is ending with the program. The program's static objects are destroyed already, so no
/// handler may be called. libACE frees its singleton, although threads may be in its event loop.
bool ace_ends() noexcept;

}  // namespace baton::ace
