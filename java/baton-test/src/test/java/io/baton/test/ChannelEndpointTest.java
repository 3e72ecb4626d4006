package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.baton.spi.ChannelEndpoint;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
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
}
