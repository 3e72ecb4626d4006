// ACE's TLS stream in full duplex. Its reads and writes go through the bridge, and its own
// completions are posted results.
#include <ace/SSL/SSL_Asynch_Stream.h>
#include <ace/SSL/SSL_Context.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "support.hpp"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BATON_ACE_SLOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define BATON_ACE_SLOW 1
#endif
#endif

// A race inside ACE: a result moves the write pointer of the stream's block before the stream's
// handler takes the stream's mutex. A write of the user holds that mutex and may read the block at
// that time. The bytes are there already, so it reads the right ones.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:ACE_SSL_Asynch_Stream::ssl_bio_read\n";
}

namespace baton::ace::test {
namespace {

#ifdef BATON_ACE_SLOW
constexpr std::size_t bytes_each = 20'000;
#else
constexpr std::size_t bytes_each = 200'000;
#endif
constexpr std::size_t block_size = 1'500;
constexpr int connections = 8;

char pattern(std::size_t at) { return static_cast<char>((at * 37 + at / 253) & 0xff); }

/// A new key and certificate.
class Identity {
 public:
  Identity() {
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3'600);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* const name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate_, name);
    X509_sign(certificate_, key_, EVP_sha256());
    context.set_mode(ACE_SSL_Context::SSLv23);
    EXPECT_EQ(1, SSL_CTX_use_certificate(context.context(), certificate_));
    EXPECT_EQ(1, SSL_CTX_use_PrivateKey(context.context(), key_));
  }
  ~Identity() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  ACE_SSL_Context context;

 private:
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
};

/// Sends the pattern and checks the received bytes, both at once. When both are done it closes; the
/// stream then says by handle_wakeup that nothing of it is in flight any more.
class TlsSide final : public ACE_Handler {
 public:
  TlsSide(ACE_SSL_Asynch_Stream::Stream_Type type, ACE_SSL_Context& context, Count& closed,
          Count& right)
      : closed_(closed), right_(right), stream_(type, &context) {}
  void begin(int fildes, ACE_Proactor* proactor) {
    const std::lock_guard guard{mutex_};
    ASSERT_EQ(0, stream_.open(*this, fildes, nullptr, proactor));
    read();
    write();
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    const std::lock_guard guard{mutex_};
    for (std::size_t i = 0; i < result.bytes_transferred(); ++i) {
      if (in_.rd_ptr()[i] != pattern(received_ + i)) wrong_ = true;
    }
    received_ += result.bytes_transferred();
    if (!result.success() || result.bytes_transferred() == 0) wrong_ = true;
    if (!wrong_ && received_ < bytes_each) return read();
    reading_ = false;
    close_if_done();
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    const std::lock_guard guard{mutex_};
    sent_ += result.bytes_transferred();
    if (!result.success()) wrong_ = true;
    if (!wrong_ && sent_ < bytes_each) return write();
    writing_ = false;
    close_if_done();
  }
  void handle_wakeup() override { closed_.add(); }

 private:
  void read() {
    in_.reset();
    EXPECT_EQ(0, stream_.read(in_, in_.space()));
  }
  void write() {
    out_.reset();
    const std::size_t size = std::min(block_size, bytes_each - sent_);
    for (std::size_t i = 0; i < size; ++i) out_.wr_ptr()[i] = pattern(sent_ + i);
    out_.wr_ptr(size);
    EXPECT_EQ(0, stream_.write(out_, size));
  }
  void close_if_done() {
    if (reading_ || writing_) return;
    if (!wrong_ && received_ == bytes_each && sent_ == bytes_each) right_.add();
    static_cast<void>(stream_.close());
  }

  Count& closed_;
  Count& right_;
  std::mutex mutex_;
  ACE_SSL_Asynch_Stream stream_;
  ACE_Message_Block in_{block_size};
  ACE_Message_Block out_{block_size};
  std::size_t received_ = 0;
  std::size_t sent_ = 0;
  bool reading_ = true;
  bool writing_ = true;
  bool wrong_ = false;
};

class TlsStreams : public AceTest {
 protected:
  Identity identity_;
  Count closed_;
  Count right_;
};

TEST_F(TlsStreams, FullDuplexWithFourThreadsIsRightToTheByte) {
  std::vector<std::unique_ptr<SocketPair>> pairs;
  std::vector<std::unique_ptr<TlsSide>> sides;
  run(4);
  for (int i = 0; i < connections; ++i) {
    pairs.push_back(std::make_unique<SocketPair>());
    for (const bool server : {true, false}) {
      sides.push_back(std::make_unique<TlsSide>(
          server ? ACE_SSL_Asynch_Stream::ST_SERVER : ACE_SSL_Asynch_Stream::ST_CLIENT,
          identity_.context, closed_, right_));
      sides.back()->begin(server ? pairs.back()->first : pairs.back()->second, ace());
    }
  }
  EXPECT_TRUE(closed_.reaches(2 * connections));
  EXPECT_EQ(2 * connections, right_.value());
  end();
  destroy();
}

}  // namespace
}  // namespace baton::ace::test
