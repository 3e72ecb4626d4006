#include "file_load.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "../output.hpp"
#include "baton/file.hpp"
#include "baton/proactor.hpp"
#include "errors.hpp"
#include "file_pass.hpp"
#include "file_report.hpp"
#include "pattern.hpp"

namespace baton::tools {
namespace {

using Clock = std::chrono::steady_clock;

// --- the run ------------------------------------------------------------------------------------

Failure failure(std::error_code code, const std::string& what) {
  return {code, fmt::format("{}: {}", what, code.message())};
}

// Only a regular file or a block device, because the open of a FIFO would wait for its other end.
Result<void, Failure> check_kind(const FileLoadOptions& options) {
  struct stat status{};
  if (::stat(options.file.c_str(), &status) != 0) return {};  // the open says why
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return {};
  return unexpected{Failure{std::make_error_code(std::errc::invalid_argument),
                            options.file + " is neither a file nor a block device"}};
}

// --write replaces only files that it has made before, which it recognises by their beginning.
Result<void, Failure> check_replaceable(const File& file, const Pattern& pattern,
                                        const FileLoadOptions& options) {
  const AlignedBlock begin = aligned_block(file_alignment);
  const ssize_t count = ::pread(file.native(), begin.get(), file_alignment, 0);
  if (count < 0) {
    return unexpected{failure({errno, std::system_category()}, options.file)};
  }
  const auto size = static_cast<std::size_t>(count);
  if (options.force || std::memcmp(begin.get(), pattern.piece(0, 0, size).data(), size) == 0) {
    return {};
  }
  return unexpected{Failure{std::make_error_code(std::errc::file_exists),
                            options.file +
                                " exists and was not made by --write; its contents would be lost. "
                                "Replace them with --force, or name another file"}};
}

Result<File, Failure> open_file(Proactor& proactor, const FileLoadOptions& options) {
  FileFlags flags = options.write ? FileFlags::read_write | FileFlags::create : FileFlags::read;
  if (options.direct) flags = flags | FileFlags::direct;
  auto file = File::open(proactor, options.file, flags);
  if (file) return std::move(*file);
  const auto code = file.error();
  if (code == std::errc::no_such_file_or_directory && !options.write) {
    return unexpected{Failure{code, options.file + " does not exist; make it with --write first"}};
  }
  if (code == std::errc::invalid_argument && options.direct) {
    return unexpected{
        Failure{code, options.file + ": this file system has no direct I/O; leave --direct out"}};
  }
  return unexpected{failure(code, options.file)};
}

Failure no_block(const FileLoadOptions& options) {
  const std::string what = options.write ? "--size" : options.file;
  return {std::make_error_code(std::errc::invalid_argument),
          fmt::format("{} has no room for a block of {} bytes", what, options.block)};
}

// Whole blocks only.
Result<std::uint64_t, Failure> usable_size(const File& file, const FileLoadOptions& options) {
  std::uint64_t size = options.size;
  if (!options.write) {
    const auto found = file.size();
    if (!found) return unexpected{failure(found.error(), options.file)};
    size = *found;
  }
  size -= size % options.block;
  if (size > 0) return size;
  return unexpected{no_block(options)};
}

double sync(Proactor& proactor, File& file, LoadErrors& errors) {
  const auto start = Clock::now();
  Operation operation;
  proactor.restart();
  const auto error = file.data_sync(operation, [&proactor](Operation&) { proactor.stop(); });
  if (!error) proactor.run();
  if (error || operation.failed()) {
    errors.add("sync: " + (error ? error : operation.error()).message());
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Removes a new file again if there is no memory for the buffers.
class MadeFile {
 public:
  explicit MadeFile(const FileLoadOptions& options)
      : path_(options.write && ::access(options.file.c_str(), F_OK) != 0 ? options.file : "") {}
  ~MadeFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  void keep() noexcept { path_.clear(); }

 private:
  std::string path_;
};

Result<FileReport, Failure> load_file(const FileLoadOptions& options) {
  const auto config = make_config(options.config);
  if (!config) return unexpected{config.error()};
  const auto proactor = Proactor::open(*config);
  if (!proactor) return unexpected{proactor.error()};
  warn_of_replacements("load", (*proactor)->explain(), options.config);
  if (const auto kind = check_kind(options); !kind) return unexpected{kind.error()};
  if (options.write && options.size < options.block) return unexpected{no_block(options)};
  MadeFile made{options};
  auto file = open_file(**proactor, options);
  if (!file) return unexpected{file.error()};
  const auto size = usable_size(*file, options);
  if (!size) return unexpected{size.error()};

  const Pattern pattern;
  if (options.write) {
    const auto replaceable = check_replaceable(*file, pattern, options);
    if (!replaceable) return unexpected{replaceable.error()};
  }
  FileReport report;
  const auto pass = [&] {
    auto one = std::make_unique<FilePass>(**proactor, *file, pattern, options.block, options.depth,
                                          *size, report.errors);
    if (options.random) one->read_at_random();
    if (!options.compare) one->compare_nothing();
    return one;
  };
  if (!options.write) {
    report.measured = pass()->run(FilePass::Kind::check, options.seconds);
    if (options.compare) report.bytes_read = report.measured.bytes;
    return report;
  }
  const auto writing = pass();
  made.keep();
  report.measured = writing->run(FilePass::Kind::write, options.seconds);
  report.sync_s = sync(**proactor, *file, report.errors);
  // The written part is read back once; less if the time was too short for all of it.
  const std::uint64_t written = std::min(*size, report.measured.bytes);
  if (report.errors.count() == 0 && written > 0) {
    FilePass check(**proactor, *file, pattern, options.block, options.depth, written,
                   report.errors);
    report.bytes_read = check.run(FilePass::Kind::check, 0).bytes;
  }
  return report;
}

}  // namespace

int run_file_load(const FileLoadOptions& options) {
  if (options.direct && options.block % file_alignment != 0) {
    return report_failure(
        "load",
        {{}, fmt::format("--direct needs a --block that is a multiple of {}", file_alignment)});
  }
  const auto report = load_file(options);
  if (!report) return report_failure("load", report.error());
  print_text(options.json ? report->json(options) : report->text(options));
  return report->passed() ? 0 : 1;
}

}  // namespace baton::tools
