// refused: return a pointer to a value that needs more
#include <baton/coro/task.hpp>

#ifdef BATON_TEST_MISUSE
struct alignas(128) Value {};
#else
struct alignas(64) Value {};
#endif

baton::Task<Value> make() { co_return Value{}; }
