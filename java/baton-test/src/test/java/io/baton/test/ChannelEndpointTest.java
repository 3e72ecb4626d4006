package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.baton.spi.ChannelEndpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
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
    String reason = "Connection timed out";
    FakeConnection silent =
        new FakeConnection() {
          private boolean told;

          @Override
          public int read(ByteBuffer room) throws IOException {
            if (told) {
              return -1;
            }
            told = true;
            throw new IOException(reason);
          }
        };
    ChannelEndpoint endpoint = new ChannelEndpoint(silent);
    ByteBuffer buffer = ByteBuffer.allocate(1);
    IOException first = assertThrows(IOException.class, () -> endpoint.read(buffer));
    assertEquals(reason, first.getMessage());
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
    FakeConnection channel =
        new FakeConnection() {
          @Override
          public int read(ByteBuffer room) {
            return -1;
          }

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
}
