package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.baton.spi.ChannelEndpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.SelectorProvider;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** What engines of java.nio channels share. */
class ChannelEndpointTest {

  /** One thread ends the output while another one tries to write. */
  @Test
  void aWriteBehindTheEndOfOutputLosesNoConnection() throws Exception {
    try (ServerSocketChannel listener = ServerSocketChannel.open()) {
      listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      ChannelEndpoint endpoint =
          new ChannelEndpoint(SocketChannel.open(listener.getLocalAddress()));
      try (SocketChannel peer = listener.accept()) {
        endpoint.shutdownOutput();
        assertThrows(ClosedChannelException.class, () -> endpoint.write(ByteBuffer.allocate(1)));
        peer.shutdownOutput();
        int bytes = 0;
        while (bytes == 0) {
          bytes = endpoint.read(ByteBuffer.allocate(1));
        }
        assertEquals(-1, bytes, "the peer has ended its output, and nobody has reset it");
      } finally {
        endpoint.close();
      }
    }
  }

  /** As keep-alive finds it. The system tells a read of it once, and java.nio does not remember. */
  @Test
  void aPeerThatAnswersNoMoreIsNoEnd() throws Exception {
    ChannelEndpoint endpoint = new ChannelEndpoint(new SilentPeer());
    ByteBuffer buffer = ByteBuffer.allocate(1);
    IOException first = assertThrows(IOException.class, () -> endpoint.read(buffer));
    assertEquals(SilentPeer.REASON, first.getMessage());
    for (int i = 0; i < 2; i++) {
      assertThrows(SocketException.class, () -> endpoint.read(buffer), "what came looks complete");
    }
    endpoint.close();
  }

  /** The system tells a write of the loss, and another thread's read finds the end meanwhile. */
  @Test
  void anEndWaitsForTheWriteThatMayKnowOfALoss() throws Exception {
    Thread reader = Thread.currentThread();
    AtomicBoolean hasRead = new AtomicBoolean();
    CountDownLatch inWrite = new CountDownLatch(1);
    EndedChannel channel =
        new EndedChannel() {
          @Override
          public int write(ByteBuffer source) throws IOException {
            inWrite.countDown();
            while (!hasRead.get() && reader.getState() != Thread.State.BLOCKED) {
              Thread.onSpinWait();
            }
            throw new SocketException("Connection reset by peer");
          }
        };
    ChannelEndpoint endpoint = new ChannelEndpoint(channel);
    CompletableFuture<Void> write =
        CompletableFuture.runAsync(
            () ->
                assertThrows(SocketException.class, () -> endpoint.write(ByteBuffer.allocate(1))));
    Patience.await(inWrite, "the write");
    try {
      assertThrows(SocketException.class, () -> endpoint.read(ByteBuffer.allocate(1)));
    } finally {
      hasRead.set(true);
    }
    Patience.await(write, "the end of the write");
  }

  /** A connection whose reads find the end. */
  private abstract static class EndedChannel extends SocketChannel {
    EndedChannel() {
      super(SelectorProvider.provider());
    }

    @Override
    public int read(ByteBuffer room) {
      return -1;
    }

    @Override
    protected void implConfigureBlocking(boolean block) {}

    @Override
    protected void implCloseSelectableChannel() {}

    @Override
    public boolean isConnected() {
      return true;
    }

    private static <T> T unused() {
      throw new UnsupportedOperationException("no part of this test");
    }

    @Override
    public long read(ByteBuffer[] room, int offset, int length) {
      return unused();
    }

    @Override
    public long write(ByteBuffer[] sources, int offset, int length) {
      return unused();
    }

    @Override
    public SocketChannel bind(SocketAddress local) {
      return unused();
    }

    @Override
    public <T> SocketChannel setOption(SocketOption<T> name, T value) {
      return unused();
    }

    @Override
    public <T> T getOption(SocketOption<T> name) {
      return unused();
    }

    @Override
    public Set<SocketOption<?>> supportedOptions() {
      return unused();
    }

    @Override
    public SocketChannel shutdownInput() {
      return unused();
    }

    @Override
    public SocketChannel shutdownOutput() {
      return unused();
    }

    @Override
    public Socket socket() {
      return unused();
    }

    @Override
    public boolean isConnectionPending() {
      return unused();
    }

    @Override
    public boolean connect(SocketAddress remote) {
      return unused();
    }

    @Override
    public boolean finishConnect() {
      return unused();
    }

    @Override
    public SocketAddress getRemoteAddress() {
      return unused();
    }

    @Override
    public SocketAddress getLocalAddress() {
      return unused();
    }
  }
}
