// In place of xml.cpp where the library is built without pugixml (BATON_XML=OFF): every document is
// refused, and the reason says what to do.
#include <string>
#include <system_error>

#include "baton/config.hpp"

namespace baton {
namespace {

unexpected<Failure> refused(const std::string& name) {
  return unexpected{Failure{std::make_error_code(std::errc::not_supported),
                            name + ": this build of Baton reads no XML (BATON_XML=OFF); write the "
                                   "settings as one line (BATON=name=value,...), or build Baton "
                                   "with BATON_XML=ON, which needs pugixml",
                            ReasonCode::not_built}};
}

}  // namespace

Result<Config, Failure> Config::parse_xml(std::string_view /*document*/, Config /*base*/) {
  return refused("XML");
}

Result<Config, Failure> Config::load_xml(const std::string& path, Config /*base*/) {
  return refused(path);
}

}  // namespace baton
