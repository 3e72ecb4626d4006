// A bounded table, least recently used out first.
#include "file_cache.hpp"

#include <sys/stat.h>
#include <time.h>

#include <array>
#include <charconv>
#include <utility>

#include "mime.hpp"

namespace httpd {
namespace {

constexpr std::string_view index_page = "index.html";

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

// This clock cannot be set, and goes on while the machine sleeps.
Seconds seconds_passed() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec;
}

bool is_unchanged(const OpenFile& file) {
  struct stat status{};
  return ::fstat(file.file.native(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == file.size &&
         file.changed == Moment{status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

Status status_of(std::error_code error) {
  if (!error) return Status::ok;
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
      error == std::errc::filename_too_long) {
    return Status::not_found;
  }
  // EXDEV: the kernel's word for a way out of the root.
  if (error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
      error == std::errc::cross_device_link || error == std::errc::too_many_symbolic_link_levels ||
      error == std::errc::no_such_device_or_address) {
    return Status::forbidden;
  }
  if (error == std::errc::too_many_files_open ||
      error == std::errc::too_many_files_open_in_system || error == std::errc::not_enough_memory ||
      error == baton::errc::no_free_handles) {
    return Status::unavailable;
  }
  return Status::internal_error;
}

Status FileCache::open(const std::string& path, std::shared_ptr<OpenFile>& file) {
  const Seconds now = seconds_passed();
  if (auto found = look_up(path, now)) {
    file = std::move(found);
    return Status::ok;
  }
  Opened opened;
  if (const Status status = open_anew(path, opened); status != Status::ok) {
    forget(path);
    return status;
  }
  if (auto same = keep_if_same(path, opened, now)) {
    file = std::move(same);
    return Status::ok;
  }
  auto fresh = adopt(path, opened);
  if (fresh == nullptr) return Status::unavailable;
  insert(path, fresh, now);
  file = std::move(fresh);
  return Status::ok;
}

Status FileCache::open_anew(const std::string& path, Opened& opened) const {
  const bool folder = path.empty() || path.back() == '/';
  const std::error_code error =
      root_.open_below(folder ? path + std::string(index_page) : path, opened);
  if (error) return status_of(error);
  if (opened.kind == Opened::Kind::file) return Status::ok;
  // A FIFO, a device, a socket: not served, and neither is a folder that is called index.html.
  if (opened.kind == Opened::Kind::other || folder) return Status::forbidden;
  return Status::moved_permanently;
}

std::shared_ptr<OpenFile> FileCache::adopt(const std::string& path, Opened& opened) const {
  auto made = std::make_shared<OpenFile>();
  auto file = baton::File::adopt(proactor_, opened.descriptor());
  if (!file) return nullptr;
  opened.release();
  made->file = std::move(*file);
  made->size = opened.size;
  made->modified = opened.modified.seconds;
  made->changed = opened.modified;
  made->device = opened.device;
  made->inode = opened.inode;
  made->etag = '"' + hexadecimal(static_cast<std::uint64_t>(opened.modified.seconds)) + '.' +
               hexadecimal(static_cast<std::uint64_t>(opened.modified.nanoseconds)) + '-' +
               hexadecimal(opened.size) + '"';
  const bool folder = path.empty() || path.back() == '/';
  made->lines = "Content-Type: ";
  made->lines += media_type(folder ? index_page : std::string_view(path));
  made->lines += "\r\nLast-Modified: " + to_http_date(made->modified);
  made->lines += "\r\nETag: " + made->etag + "\r\nAccept-Ranges: bytes\r\n";
  made->length_line = "Content-Length: " + std::to_string(opened.size) + "\r\n";
  return made;
}

std::shared_ptr<OpenFile> FileCache::look_up(const std::string& path, Seconds now) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(path);
  if (found == index_.end()) return nullptr;
  const Entries::iterator entry = found->second;
  if (now - entry->checked >= trusted_) return nullptr;
  // A file that was written to in place has the same name still, and another length or tag.
  if (!is_unchanged(*entry->file)) return nullptr;
  if (entry != entries_.begin()) entries_.splice(entries_.begin(), entries_, entry);
  return entry->file;
}

std::shared_ptr<OpenFile> FileCache::keep_if_same(const std::string& path, const Opened& opened,
                                                  Seconds now) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(path);
  if (found == index_.end()) return nullptr;
  Entry& entry = *found->second;
  const OpenFile& file = *entry.file;
  if (file.device != opened.device || file.inode != opened.inode || file.size != opened.size ||
      file.changed != opened.modified) {
    return nullptr;
  }
  entry.checked = now;
  return entry.file;
}

void FileCache::insert(const std::string& path, const std::shared_ptr<OpenFile>& file,
                       Seconds now) {
  if (entries_max_ == 0) return;
  const std::lock_guard lock(mutex_);
  erase(path);
  if (entries_.size() == entries_max_) erase(std::string(entries_.back().path));
  Entries fresh;  // kept only with its place in the index
  fresh.push_front({path, file, now});
  index_.emplace(fresh.front().path, fresh.begin());
  entries_.splice(entries_.begin(), fresh);
}

void FileCache::forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  erase(path);
}

void FileCache::erase(const std::string& path) {
  const auto found = index_.find(path);
  if (found == index_.end()) return;
  const Entries::iterator entry = found->second;
  index_.erase(found);  // first: its key is a view of the entry
  entries_.erase(entry);
}

}  // namespace httpd
