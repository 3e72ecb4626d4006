/* A program of a user's, in C: writes and reads a file by libuaio. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uaio.h>
#include <unistd.h>

static ssize_t finish(struct aiocb* request) {
  const struct aiocb* const list[] = {request};
  while (uaio_error(request) == EINPROGRESS) uaio_suspend(list, 1, NULL);
  return uaio_return(request);
}

int main(void) {
  char name[] = "/tmp/uaio-consumer-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return 1;
  unlink(name);
  char text[] = "written by libuaio";
  char copy[sizeof(text)] = "";
  struct aiocb request;
  memset(&request, 0, sizeof(request));
  request.aio_fildes = file;
  request.aio_buf = text;
  request.aio_nbytes = sizeof(text);
  request.aio_sigevent.sigev_notify = SIGEV_NONE;
  if (uaio_write(&request) != 0 || finish(&request) != (ssize_t)sizeof(text)) return 2;
  if (uaio_fsync(O_SYNC, &request) != 0 || finish(&request) != 0) return 3;
  request.aio_buf = copy;
  if (uaio_read(&request) != 0 || finish(&request) != (ssize_t)sizeof(copy)) return 4;
  if (strcmp(text, copy) != 0) return 5;
  puts(copy);
  return 0;
}
