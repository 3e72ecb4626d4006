#include "errors.hpp"

#include <cerrno>

namespace baton::tools {

std::string advice_for(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "; nothing listens there - start the server first, or check --host and --port";
    case EMFILE:
      return "; too many descriptors in this process - raise the limit with 'ulimit -n'";
    case ENFILE:
      return "; the system is out of descriptors - raise 'sysctl fs.file-max'";
    case EADDRNOTAVAIL:
      return "; out of local ports - widen 'sysctl net.ipv4.ip_local_port_range', use a host in "
             "127.0.0.0/8, or wait a minute for closed connections to leave TIME_WAIT";
    case ETIMEDOUT:
      return "; the server does not accept fast enough - give it a longer backlog "
             "('sysctl net.core.somaxconn')";
    case ENOBUFS:
    case ENOMEM:
      return "; out of kernel memory for sockets - use fewer sessions or a smaller --window";
    case ECONNRESET:
      return "; the server ended the connection - look at its output ('ulimit -n' there?)";
    default:
      return {};
  }
}

}  // namespace baton::tools
