#include <charconv>
#include <cstdlib>
#include <string>

#include "baton/ace/proactor.hpp"

namespace baton::ace {
namespace {

constexpr std::size_t batch_max = 1'024;

bool read_batch(std::string_view text, std::size_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 1 && out <= batch_max;
}

bool apply(Options& options, std::string_view word) {
  constexpr std::string_view batch = "batch=";
  if (word.starts_with(batch)) return read_batch(word.substr(batch.size()), options.batch);
  if (word == "lazy") return options.lazy = true;
  if (word == "explain") return options.explain = true;
  return false;
}

}  // namespace

Result<Options, Failure> Options::parse(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    const std::string_view word = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (word.empty() || apply(options, word)) continue;
    std::string reason = "BATON_ACE: \"";
    constexpr std::size_t shown_max = 60;
    reason += word.substr(0, shown_max);
    if (word.size() > shown_max) reason += "...";
    reason += "\" is not understood; it takes batch=N (1 to 1024), lazy and explain, with commas";
    return unexpected{Failure{errc::bad_configuration, std::move(reason), ReasonCode::bad_value}};
  }
  return options;
}

Result<Options, Failure> Options::from_environment() {
  const char* const text = ::secure_getenv("BATON_ACE");
  return parse(text != nullptr ? text : "");
}

}  // namespace baton::ace
