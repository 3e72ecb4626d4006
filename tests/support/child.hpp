// What a test does in a child of fork(), and how that child ended.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace baton::test {

/// The child ends with what `body` returns, or by SIGALRM after a minute: it waits for ever then.
template <typename Body>
pid_t start_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  return child;
}

/// What waitpid() says of it, 0 after `_exit(0)`; -1 without such a child.
[[nodiscard]] inline int status_of(pid_t child) {
  int status = -1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

template <typename Body>
[[nodiscard]] int status_of_child(Body&& body) {
  return status_of(start_child(body));
}

}  // namespace baton::test
