// A file system with one file, /data of 1 MiB, that fails like a disk:
//
//   from 256 KiB   reads transfer 512 bytes at most
//   from 512 KiB   reads fail with EIO
//   from 768 KiB   writes that reach there fail with ENOSPC
//   fsync          fails with EIO
//
// Reading /callers gives the numbers of threads that have read, written and polled it so far.
//
// usage: baton_faulty_files -f FOLDER
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

namespace {

constexpr off_t short_from = 256 << 10;
constexpr off_t unreadable_from = 512 << 10;
constexpr off_t full_from = 768 << 10;
constexpr size_t short_size = 512;

std::array<char, 1 << 20> data;

std::mutex callers_mutex;
std::string callers;

bool is_callers(const char* path) { return strcmp(path, "/callers") == 0; }

void note_caller() {
  const std::scoped_lock lock(callers_mutex);
  callers += std::to_string(fuse_get_context()->pid) + '\n';
}

int get_attributes(const char* path, struct stat* out, fuse_file_info*) {
  *out = {};
  if (strcmp(path, "/") == 0) {
    out->st_mode = S_IFDIR | 0755;
    out->st_nlink = 2;
    return 0;
  }
  if (strcmp(path, "/data") != 0 && !is_callers(path)) return -ENOENT;
  out->st_mode = S_IFREG | 0644;
  out->st_nlink = 1;
  out->st_size = static_cast<off_t>(data.size());
  return 0;
}

// Every transfer arrives here as requested, past the cache.
int open_file(const char*, fuse_file_info* info) {
  info->direct_io = 1;
  return 0;
}

int read_callers(char* out, size_t size, size_t offset) {
  note_caller();
  const std::scoped_lock lock(callers_mutex);
  return static_cast<int>(callers.copy(out, size, std::min(offset, callers.size())));
}

// Always ready, like the files of a server without poll.
int poll_file(const char* path, fuse_file_info*, fuse_pollhandle* handle, unsigned* events) {
  if (handle != nullptr) fuse_pollhandle_destroy(handle);
  if (is_callers(path)) note_caller();
  *events = POLLIN | POLLOUT;
  return 0;
}

int read_file(const char* path, char* out, size_t size, off_t offset, fuse_file_info*) {
  if (is_callers(path)) return read_callers(out, size, static_cast<size_t>(offset));
  if (offset >= unreadable_from) return -EIO;
  if (offset >= short_from) size = std::min(size, short_size);
  size = std::min(size, static_cast<size_t>(unreadable_from - offset));
  memcpy(out, data.data() + offset, size);
  return static_cast<int>(size);
}

int write_file(const char* path, const char* from, size_t size, off_t offset, fuse_file_info*) {
  if (is_callers(path)) {
    note_caller();
    return static_cast<int>(size);
  }
  // Whole or not at all: the kernel takes a short answer to an asynchronous write for an error.
  if (offset + static_cast<off_t>(size) > full_from) return -ENOSPC;
  memcpy(data.data() + offset, from, size);
  return static_cast<int>(size);
}

int sync_file(const char*, int, fuse_file_info*) { return -EIO; }

}  // namespace

int main(int count, char** words) {
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.open = open_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.fsync = sync_file;
  operations.poll = poll_file;
  return fuse_main(count, words, &operations, nullptr);
}
