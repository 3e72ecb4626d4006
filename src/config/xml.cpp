// The XML form, read with pugixml, which stays inside this file. A build without it (BATON_XML=OFF)
// has no_xml.cpp in its place.
//
//   <baton handles="4096" accept="least_loaded" forbid="linux_aio">
//     <processor operations="stream accept connect datagram" engine="emulated" wait="epoll"/>
//     <processor operations="file" engine="io_uring" mode="dedicated"/>
//   </baton>
//
// The document is bounded, two levels deep, and may refer to nothing outside itself. So a document
// type is refused, and with it every entity of its own. pugixml keeps no line numbers. It gives the
// offset at which a node began, and lines are counted up to there.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <pugixml.hpp>
#include <string>

#include "config/apply.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

using Parsed = Result<Config, Failure>;
using Done = Result<void, Failure>;

constexpr std::size_t document_max = 1U << 20;
constexpr const char* elements = "valid: <baton> with <processor> inside";

// Everything that could carry content is made visible, so that it can be refused; comments are not.
constexpr unsigned parse_flags = pugi::parse_escapes | pugi::parse_wconv_attribute |
                                 pugi::parse_eol | pugi::parse_cdata | pugi::parse_doctype |
                                 pugi::parse_pi | pugi::parse_fragment;

class XmlParser {
 public:
  XmlParser(Config& config, std::string_view document, std::string name)
      : config_(config), document_(document), name_(std::move(name)), applier_(config, name_) {}

  Done parse() {
    if (document_.size() > document_max) {
      return malformed(name_, "larger than " + std::to_string(document_max) + " bytes");
    }
    if (document_.find('\0') != std::string_view::npos) return malformed(name_, "holds a NUL byte");
    if (config::begins_with_mark(document_)) return malformed(name_, config::mark_refused);
    if (auto done = check_references(); !done) return done;
    pugi::xml_document tree;
    const pugi::xml_parse_result result =
        tree.load_buffer(document_.data(), document_.size(), parse_flags, pugi::encoding_utf8);
    if (!result) {
      return malformed(place(result.offset),
                       std::string("not well-formed XML: ") + result.description());
    }
    pugi::xml_node root;
    for (const pugi::xml_node node : tree.children()) {
      if (auto done = check_element(node, "baton"); !done) return done;
      if (root) return malformed(place(node), "a second <baton>; valid: one");
      root = node;
    }
    if (!root) return malformed(name_, std::string("holds no element; ") + elements);
    return parse_root(root);
  }

 private:
  /// "&#0;", or a number so large that pugixml takes it for 0, would end a value before its end:
  /// a name with something behind it would be taken for the name.
  Done check_references() const {
    for (auto at = document_.find("&#"); at != std::string_view::npos;
         at = document_.find("&#", at + 1)) {
      const bool hexadecimal = document_.substr(at + 2, 1) == "x";
      const char* const first = document_.data() + at + (hexadecimal ? 3 : 2);
      const char* const last = document_.data() + document_.size();
      std::uint32_t number = 0;
      const auto [end, error] = std::from_chars(first, last, number, hexadecimal ? 16 : 10);
      constexpr std::uint32_t character_max = 0x10ffff;
      if (error == std::errc{} && number != 0 && number <= character_max) continue;
      if (end == first) continue;  // no number: the parser refuses it, or it is text
      return malformed(place(static_cast<std::ptrdiff_t>(at)),
                       "a reference to no character; valid: &#1; to &#1114111;");
    }
    return {};
  }

  Done parse_root(const pugi::xml_node& root) {
    const std::string here = place(root);
    applier_.set_source(here);
    if (auto done = check_attributes(root, here, config::names(config::proactor_keys())); !done) {
      return done;
    }
    for (const pugi::xml_attribute attribute : root.attributes()) {
      const auto done = applier_.set(here, attribute.name(), config::trimmed(attribute.value()));
      if (!done) return done;
    }
    if (auto done = count_processors(root); !done) return done;

    std::size_t index = 0;
    std::vector<std::string> places;
    for (const pugi::xml_node node : root.children()) {
      places.push_back(place(node));
      if (auto done = parse_processor(node, index++, places.back()); !done) return done;
    }
    return config::check(config_, here, places);
  }

  /// A file that describes processors describes the whole team: an administrator could not foresee
  /// a team that comes half from the program and half from the file.
  Done count_processors(const pugi::xml_node& root) {
    std::size_t count = 0;
    for (const pugi::xml_node node : root.children()) {
      if (auto done = check_element(node, "processor"); !done) return done;
      if (++count > limits::processors_max) {
        return malformed(place(node), "one processor too many; valid: at most " +
                                          std::to_string(limits::processors_max));
      }
    }
    if (count == 0) return {};
    if (!config_.processors.empty()) {
      applier_.note("processors from " + name_ + ", instead of those set before");
    }
    config_.processors.assign(count, ProcessorConfig{});
    return {};
  }

  Done parse_processor(const pugi::xml_node& node, std::size_t index, const std::string& here) {
    applier_.set_source(here);
    if (auto done = check_attributes(node, here, config::names(config::processor_keys())); !done) {
      return done;
    }
    for (const pugi::xml_node child : node.children()) {
      return malformed(place(child), "<processor> holds nothing but attributes");
    }
    for (const pugi::xml_attribute attribute : node.attributes()) {
      const auto done = applier_.set(here, attribute.name(), config::trimmed(attribute.value()),
                                     index, index + 1);
      if (!done) return done;
    }
    return {};
  }

  Done check_element(const pugi::xml_node& node, const char* expected) {
    switch (node.type()) {
      case pugi::node_element:
        if (std::string_view(node.name()) == expected) return {};
        return unexpected{Failure{make_error_code(errc::unknown_name),
                                  place(node) + ": " + config::quoted(node.name()) +
                                      " is not a known element here; " + elements}};
      case pugi::node_doctype:
        return malformed(place(node), "a document type (DOCTYPE) is not accepted");
      case pugi::node_pi:
        return malformed(place(node), "a processing instruction is not accepted");
      default:
        return malformed(place(node), "text " + config::quoted(config::trimmed(node.value())) +
                                          " between elements; values are attributes");
    }
  }

  /// Known names, each once: pugixml itself keeps duplicates.
  Done check_attributes(const pugi::xml_node& node, const std::string& here,
                        const std::vector<std::string>& valid) {
    std::vector<std::string_view> seen;
    for (const pugi::xml_attribute attribute : node.attributes()) {
      const std::string_view name = attribute.name();
      if (std::find(valid.begin(), valid.end(), name) == valid.end()) {
        return unexpected{Failure{make_error_code(errc::unknown_name),
                                  here + ": " + config::quoted(name) + " is not an attribute of <" +
                                      node.name() + ">; valid: " + config::joined(valid)}};
      }
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        return malformed(here, "attribute " + std::string(name) + " is given twice");
      }
      seen.push_back(name);
    }
    return {};
  }

  static unexpected<Failure> malformed(const std::string& place, const std::string& what) {
    return unexpected{Failure{make_error_code(errc::bad_configuration), place + ": " + what}};
  }

  [[nodiscard]] std::string place(const pugi::xml_node& node) const {
    return place(node.offset_debug());
  }
  [[nodiscard]] std::string place(std::ptrdiff_t offset) const {
    if (offset < 0) return name_;
    const std::size_t end = std::min(static_cast<std::size_t>(offset), document_.size());
    const auto last = document_.begin() + static_cast<std::ptrdiff_t>(end);
    return name_ + ":" + std::to_string(1 + std::count(document_.begin(), last, '\n'));
  }

  Config& config_;
  const std::string_view document_;
  const std::string name_;
  config::Applier applier_;
};

Parsed parse_document(std::string_view document, Config base, const std::string& name) {
  config::account_for_program(base);
  if (auto done = XmlParser{base, document, name}.parse(); !done) return unexpected{done.error()};
  config::refresh_notes(base);
  return base;
}

/// The file's text, of at most document_max bytes and one more, so that the parser sees that it is
/// too large; or an errno.
/// Only a regular file: the open of a FIFO would wait for a writer, and a device has no end.
Result<std::string, int> read_file(const os::System& system, const std::string& path) {
  const int fd = system.open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
  if (fd < 0) return unexpected{errno};
  struct stat status{};
  int error = system.fstat(fd, &status) != 0 ? errno : 0;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  std::string text(document_max + 1, '\0');
  std::size_t size = 0;
  while (size < text.size() && error == 0) {
    const ssize_t count = system.read(fd, text.data() + size, text.size() - size);
    if (count == 0) break;
    if (count > 0) {
      size += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  system.close(fd);
  if (error != 0) return unexpected{error};
  text.resize(size);
  return text;
}

}  // namespace

Parsed Config::parse_xml(std::string_view document, Config base) {
  return parse_document(document, std::move(base), "XML");
}

Parsed Config::load_xml(const std::string& path, Config base) {
  const Result<std::string, int> text = read_file(os::or_real(base.system), path);
  if (!text) {
    const std::error_code code(text.error(), std::system_category());
    const bool other_kind = text.error() == EINVAL;
    const bool too_long = text.error() == ENAMETOOLONG;
    return unexpected{
        Failure{code, (too_long ? config::quoted(path) : path) + ": cannot be read: " +
                          (other_kind ? "it is not a regular file" : code.message())}};
  }
  return parse_document(*text, std::move(base), path);
}

}  // namespace baton
