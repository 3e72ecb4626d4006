package io.baton.test;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.SelectorProvider;
import java.util.Set;

/** A connected socket that does nothing but what a test makes of it. */
abstract class FakeConnection extends SocketChannel {
  FakeConnection() {
    super(SelectorProvider.provider());
  }

  @Override
  protected void implConfigureBlocking(boolean block) {}

  @Override
  protected void implCloseSelectableChannel() {}

  @Override
  public boolean isConnected() {
    return true;
  }

  private static UnsupportedOperationException unused() {
    return new UnsupportedOperationException("no test needs it");
  }

  @Override
  public int read(ByteBuffer room) throws IOException {
    throw unused();
  }

  @Override
  public long read(ByteBuffer[] room, int offset, int length) {
    throw unused();
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    throw unused();
  }

  @Override
  public long write(ByteBuffer[] sources, int offset, int length) {
    throw unused();
  }

  @Override
  public SocketChannel bind(SocketAddress local) {
    throw unused();
  }

  @Override
  public <T> SocketChannel setOption(SocketOption<T> name, T value) {
    throw unused();
  }

  @Override
  public <T> T getOption(SocketOption<T> name) {
    throw unused();
  }

  @Override
  public Set<SocketOption<?>> supportedOptions() {
    throw unused();
  }

  @Override
  public SocketChannel shutdownInput() {
    throw unused();
  }

  @Override
  public SocketChannel shutdownOutput() {
    throw unused();
  }

  @Override
  public Socket socket() {
    throw unused();
  }

  @Override
  public boolean isConnectionPending() {
    throw unused();
  }

  @Override
  public boolean connect(SocketAddress remote) {
    throw unused();
  }

  @Override
  public boolean finishConnect() {
    throw unused();
  }

  @Override
  public SocketAddress getRemoteAddress() {
    throw unused();
  }

  @Override
  public SocketAddress getLocalAddress() {
    throw unused();
  }
}
