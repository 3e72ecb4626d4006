// Accept and connect. ACE's own implementation uses a thread with a select reactor, which is never
// started here.
#pragma once

#include <mutex>
#include <vector>

#include "native/open_file.hpp"
#include "operations.hpp"

namespace baton::ace {

/// Like ACE's own accept, it owns the listening socket from open() on. Its destructor closes the
/// socket unless the program has done so. ACE calls open() before the socket listens, so Baton gets
/// the socket with the first accept.
class Accept final : public virtual ACE_Asynch_Accept_Impl, public ACE_POSIX_Asynch_Operation {
 public:
  Accept(ACE_POSIX_Proactor* proactor, std::shared_ptr<Bridge> bridge)
      : ACE_POSIX_Asynch_Operation(proactor), bridge_(std::move(bridge)) {}
  ~Accept() override;

  int open(const ACE_Handler::Proxy_Ptr& handler_proxy, ACE_HANDLE handle,
           const void* completion_key, ACE_Proactor* proactor) override;
  /// 0, or -1 and errno: EINVAL before open(), ENOBUFS without room for two addresses, and what
  /// Proactor::start_aio answers. No data is read with the connection (P-11: as ACE on POSIX).
  int accept(ACE_Message_Block& block, std::size_t bytes_to_read, ACE_HANDLE accept_handle,
             const void* act, int priority, int signal_number, int address_family) override;
  int cancel() override { return bridge_->cancel(handle_); }

 private:
  std::shared_ptr<Bridge> bridge_;
  native::OpenFile listener_;
  bool opened_ = false;
};

class Connect final : public virtual ACE_Asynch_Connect_Impl, public ACE_POSIX_Asynch_Operation {
 public:
  Connect(ACE_POSIX_Proactor* proactor, std::shared_ptr<Bridge> bridge)
      : ACE_POSIX_Asynch_Operation(proactor), bridge_(std::move(bridge)) {}
  ~Connect() override { cancel(); }

  /// Takes no descriptor: each connect brings one or makes one.
  int open(const ACE_Handler::Proxy_Ptr& handler_proxy, ACE_HANDLE handle,
           const void* completion_key, ACE_Proactor* proactor) override;
  /// 0, or -1 and errno (ENOMEM, ESHUTDOWN). Every other error is a completion, also one that
  /// occurs at once. The socket stays non-blocking, as with ACE.
  int connect(ACE_HANDLE handle, const ACE_Addr& remote, const ACE_Addr& local, int reuse_address,
              const void* act, int priority, int signal_number) override;
  /// Cancels all pending connects of this object.
  int cancel() override;

  /// The pending connects. Their completions may come after the object is deleted.
  struct Pending {
    struct Socket {
      int fildes = -1;
      native::OpenFile file;
    };
    std::mutex mutex;
    std::vector<Socket> sockets;
  };

 private:
  std::shared_ptr<Bridge> bridge_;
  std::shared_ptr<Pending> pending_ = std::make_shared<Pending>();
};

}  // namespace baton::ace
