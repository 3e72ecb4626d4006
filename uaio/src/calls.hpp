// The functions of POSIX's interface, as both sets of names export them. Each returns what its
// function does, with errno.
#pragma once

#include <aio.h>

#include "request.hpp"

namespace uaio {

/// Which set of names: `thesis` is strict where POSIX leaves a choice, `system` behaves like glibc.
enum class Names : bool { system, thesis };

int start(aiocb* block, Action action, Names names);
int sync(int operation, aiocb* block, Names names);
/// `tells_each`: the requests' own notifications are sent, too.
int start_list(int mode, aiocb* const list[], int count, const sigevent* event, Names names,
               bool tells_each = true);
int error(const aiocb* block, Names names);
ssize_t result(aiocb* block, Names names);
int suspend(const aiocb* const list[], int count, const timespec* timeout);
ssize_t wait_complete(aiocb** block, const timespec* timeout);
int cancel(int fildes, aiocb* block, Names names);
void initialise(const aioinit* parameters);

}  // namespace uaio
