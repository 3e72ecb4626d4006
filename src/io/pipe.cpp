// Pipes.
#include "baton/pipe.hpp"

#include <fcntl.h>

#include "io/native.hpp"
#include "os/system.hpp"

namespace baton {

Result<PipePair> Pipe::create(Proactor& proactor, Home home) noexcept {
  const os::System& system = proactor.system();
  int fds[2];
  // Errnos: EMFILE, ENFILE: returned to the caller.
  if (system.pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) return unexpected{io::last_error()};
  io::Descriptor writer_fd{system, fds[1]};
  auto reader = made<Pipe>(proactor, io::adopt_or_close(proactor, fds[0], HandleKind::pipe,
                                                        O_RDONLY | O_NONBLOCK, home));
  if (!reader) return unexpected{reader.error()};
  auto writer =
      made<Pipe>(proactor, io::adopt_or_close(proactor, writer_fd.release(), HandleKind::pipe,
                                              O_WRONLY | O_NONBLOCK, home));
  if (!writer) return unexpected{writer.error()};
  return PipePair{std::move(*reader), std::move(*writer)};
}

Result<Pipe> Pipe::adopt(Proactor& proactor, NativeHandle native, Ownership ownership,
                         Home home) noexcept {
  return adopt_as<Pipe>(proactor, native, HandleKind::pipe, ownership, home);
}

}  // namespace baton
