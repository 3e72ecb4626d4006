// The XML form, printed. Reading it back takes a parser (xml.cpp); printing takes none.
#include "config/apply.hpp"

namespace baton {
namespace {

/// Control characters are written by number: a reader would turn a plain line feed in a value into
/// a blank.
void append_escaped(std::string& out, std::string_view value) {
  for (const char c : value) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (const auto code = static_cast<unsigned char>(c); code < ' ') {
          out += "&#" + std::to_string(code) + ";";
        } else {
          out += c;
        }
    }
  }
}

template <class Target>
void append_element(std::string& out, std::string_view opening,
                    std::span<const config::Key<Target>> keys, const Target& target) {
  out += opening;
  for (const config::Key<Target>& key : keys) {
    const std::string value = key.get(target);
    if (value.empty()) continue;
    out += ' ';
    out += key.name;
    out += "=\"";
    append_escaped(out, value);
    out += '"';
  }
}

}  // namespace

std::string Config::to_xml() const {
  std::string out;
  append_element(out, "<baton", config::proactor_keys(), *this);
  if (processors.empty()) return out + " />\n";
  out += ">\n";
  for (const ProcessorConfig& processor : processors) {
    append_element(out, "  <processor", config::processor_keys(), processor);
    out += " />\n";
  }
  return out + "</baton>\n";
}

}  // namespace baton
