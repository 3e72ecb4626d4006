package io.baton.test;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.SelectorProvider;
import java.util.Set;

/** A connection whose peer has left without a word: read as Linux and java.nio have it. */
final class SilentPeer extends SocketChannel {
  static final String REASON = "Connection timed out";

  private boolean told;

  SilentPeer() {
    super(SelectorProvider.provider());
  }

  @Override
  public int read(ByteBuffer buffer) throws IOException {
    if (told) {
      return -1;
    }
    told = true;
    throw new IOException(REASON);
  }

  @Override
  protected void implConfigureBlocking(boolean block) {}

  @Override
  protected void implCloseSelectableChannel() {}

  @Override
  public boolean isConnected() {
    return true;
  }

  // -- not needed --------------------------------------------------------------------------------

  @Override
  public SocketChannel bind(SocketAddress local) {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> SocketChannel setOption(SocketOption<T> option, T value) {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> T getOption(SocketOption<T> option) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Set<SocketOption<?>> supportedOptions() {
    return Set.of();
  }

  @Override
  public SocketChannel shutdownInput() {
    throw new UnsupportedOperationException();
  }

  @Override
  public SocketChannel shutdownOutput() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Socket socket() {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean isConnectionPending() {
    return false;
  }

  @Override
  public boolean connect(SocketAddress remote) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean finishConnect() {
    return true;
  }

  @Override
  public SocketAddress getRemoteAddress() {
    return null;
  }

  @Override
  public SocketAddress getLocalAddress() {
    return null;
  }

  @Override
  public long read(ByteBuffer[] buffers, int offset, int length) {
    throw new UnsupportedOperationException();
  }

  @Override
  public int write(ByteBuffer buffer) {
    throw new UnsupportedOperationException();
  }

  @Override
  public long write(ByteBuffer[] buffers, int offset, int length) {
    throw new UnsupportedOperationException();
  }
}
