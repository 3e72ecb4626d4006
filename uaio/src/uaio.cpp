// The names of the thesis.
#include "uaio.h"

#include <algorithm>
#include <cstring>

#include "calls.hpp"
#include "library.hpp"

namespace {

using uaio::Action;
using uaio::Library;
using uaio::Names;

// A program that has these names may ask for completions in their order.
Library& library() {
  Library& self = Library::get();
  self.keep_done_list();
  return self;
}

}  // namespace

extern "C" {

int uaio_read(aiocb* request) {
  return library(), uaio::start(request, Action::read, Names::thesis);
}
int uaio_write(aiocb* request) {
  return library(), uaio::start(request, Action::write, Names::thesis);
}
int uaio_readv(aiocb* request) {
  return library(), uaio::start(request, Action::readv, Names::thesis);
}
int uaio_writev(aiocb* request) {
  return library(), uaio::start(request, Action::writev, Names::thesis);
}
int uaio_fsync(int operation, aiocb* request) {
  return library(), uaio::sync(operation, request, Names::thesis);
}
int ulio_listio(int mode, aiocb* const list[], int count, sigevent* event) {
  return library(), uaio::start_list(mode, list, count, event, Names::thesis);
}
int uaio_error(const aiocb* request) { return uaio::error(request, Names::thesis); }
ssize_t uaio_return(aiocb* request) { return uaio::result(request, Names::thesis); }
int uaio_suspend(const aiocb* const list[], int count, const timespec* timeout) {
  return uaio::suspend(list, count, timeout);
}
ssize_t uaio_waitcomplete(aiocb** request, const timespec* timeout) {
  return library(), uaio::wait_complete(request, timeout);
}
int uaio_cancel(int descriptor, aiocb* request) {
  return uaio::cancel(descriptor, request, Names::thesis);
}
void uaio_init(const aioinit* parameters) { library(), uaio::initialise(parameters); }

size_t uaio_statistics(char* text, size_t size) {
  const std::string whole = library().statistics();
  if (text != nullptr && size > 0) {
    const std::size_t count = std::min(whole.size(), size - 1);
    std::memcpy(text, whole.data(), count);
    text[count] = '\0';
  }
  return whole.size();
}
}
