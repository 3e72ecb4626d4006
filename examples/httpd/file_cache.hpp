// Open files: descriptor, size, validators and the part of the response head that is the file's.
//
// A hot file is opened once and not for each request. The content of a file is never kept: an
// operation of Baton reads it each time. Before each answer the open file is asked for its size and
// date, for it may have been written to. That the name means this file is trusted for a configured
// time; then it is opened once more, and if it still does the entry stays.
#pragma once

#include <baton/baton.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "conditional.hpp"
#include "date.hpp"
#include "document_root.hpp"
#include "status.hpp"

namespace httpd {

struct OpenFile {
  baton::File file;
  std::uint64_t size = 0;
  Seconds modified = 0;
  std::string etag;
  /// Content-Type, Last-Modified, ETag, Accept-Ranges: each with its line end.
  std::string lines;
  /// "Content-Length: ...\r\n" of the whole.
  std::string length_line;

  [[nodiscard]] Validators validators() const { return {etag, modified}; }

  // The values that the cache compares.
  Moment changed;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

/// In per_thread mode each lane has one of its own, for its files are at home there; then the mutex
/// is never contended.
class FileCache {
 public:
  FileCache(baton::Proactor& proactor, const DocumentRoot& root, std::size_t entries_max,
            Seconds trusted)
      : proactor_(proactor), root_(root), entries_max_(entries_max), trusted_(trusted) {}

  /// The file of that name below the root; a folder's is its index page, if `path` ends in a slash.
  /// Status::ok, not_found, forbidden, unavailable (no descriptors) or moved_permanently: a folder,
  /// and the slash is missing. May block for as long as the file system takes to open a name.
  Status open(const std::string& path, std::shared_ptr<OpenFile>& file);

 private:
  struct Entry {
    std::string path;
    std::shared_ptr<OpenFile> file;
    Seconds checked = 0;
  };
  using Entries = std::list<Entry>;

  std::shared_ptr<OpenFile> look_up(const std::string& path, Seconds now);
  std::shared_ptr<OpenFile> keep_if_same(const std::string& path, const Opened& opened,
                                         Seconds now);
  Status open_anew(const std::string& path, Opened& opened) const;
  std::shared_ptr<OpenFile> adopt(const std::string& path, Opened& opened) const;
  void insert(const std::string& path, const std::shared_ptr<OpenFile>& file, Seconds now);
  void forget(const std::string& path);
  void erase(const std::string& path);

  baton::Proactor& proactor_;
  const DocumentRoot& root_;
  const std::size_t entries_max_;
  const Seconds trusted_;
  std::mutex mutex_;
  // Guarded by the mutex. The least recently used entry is the last.
  Entries entries_;
  std::unordered_map<std::string_view, Entries::iterator> index_;  // views of Entry::path
};

/// The status for a client that an errno of the file system means.
Status status_of(std::error_code error);

}  // namespace httpd
