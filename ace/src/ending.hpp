// The end of the program: other threads may still be in the event loop when exit() runs, and libACE
// closes its singleton then.
#pragma once

namespace baton::ace {

/// From now on program_ends() is known. The function that this registers runs before the
/// destructors of the static objects that exist by then. So it is called twice: with the first
/// bridge, which may be part of a static object, and before the first operation or posted result
/// can reach a handler.
void expect_end(bool handlers_follow) noexcept;
/// exit() has been called.
bool program_ends() noexcept;
/// libACE ends with the program. The program's static objects are destroyed already, so that no
/// handler may be called, and libACE frees its singleton while threads may be in its event loop.
bool ace_ends() noexcept;

}  // namespace baton::ace
