package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.PortUnreachableException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.NotYetConnectedException;
import org.junit.jupiter.api.Test;

/** Datagrams: rule 3. */
public abstract class DatagramContract extends EngineContract {

  @Test
  void rule3DatagramsKeepTheirBoundaries() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    try (DatagramSocket peer = peer()) {
      for (String text : new String[] {"one", "", "three"}) {
        peer.send(new DatagramPacket(bytes(text), text.length(), address(channel)));
      }
      for (String text : new String[] {"one", "", "three"}) {
        channel.read(ByteBuffer.allocate(100));
        Completion read = recorder.nextGood(What.READ);
        assertEquals(text, read.text());
        assertEquals(peer.getLocalSocketAddress(), read.sender());
      }
      channel.write(buffer("answer"), peer.getLocalSocketAddress());
      assertEquals(6, recorder.nextGood(What.WRITE).bytes());
      channel.write(ByteBuffer.allocate(0), peer.getLocalSocketAddress());
      recorder.nextGood(What.WRITE);
      assertArrayEquals(bytes("answer"), receive(peer));
      assertArrayEquals(new byte[0], receive(peer));
    }
  }

  @Test
  void whatDoesNotFitIsLostAndTheNextIsWhole() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    try (DatagramSocket peer = peer()) {
      peer.send(new DatagramPacket(bytes("too long"), 8, address(channel)));
      peer.send(new DatagramPacket(bytes("next"), 4, address(channel)));
      channel.read(ByteBuffer.allocate(3));
      assertEquals("too", recorder.nextGood(What.READ).text());
      channel.read(ByteBuffer.allocate(10));
      assertEquals("next", recorder.nextGood(What.READ).text());
    }
  }

  @Test
  void aFixedPeerNeedsNoAddress() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    try (DatagramSocket peer = peer()) {
      assertNull(channel.getRemoteAddress());
      channel.connectDatagram(peer.getLocalSocketAddress());
      assertEquals(peer.getLocalSocketAddress(), channel.getRemoteAddress());
      channel.write(buffer("question"));
      recorder.nextGood(What.WRITE);
      assertArrayEquals(bytes("question"), receive(peer));
      channel.write(ByteBuffer.allocate(0));
      Completion empty = recorder.next(What.WRITE);
      if (empty.error() == null) {
        assertArrayEquals(new byte[0], receive(peer));
      } else {
        // java.nio does not send it.
        assertNotEquals("native", demultiplexor.getEngine());
        assertTrue(empty.error().getMessage().contains("empty datagram"));
      }
      channel.readPooled();
      peer.send(new DatagramPacket(bytes("answer"), 6, address(channel)));
      Completion read = recorder.nextGood(What.READ);
      assertEquals("answer", read.text());
      assertNull(read.sender());
    }
  }

  @Test
  void anEmptyDatagramIsARead() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    try (DatagramSocket peer = peer()) {
      for (boolean fixed : new boolean[] {false, true}) {
        if (fixed) {
          channel.connectDatagram(peer.getLocalSocketAddress());
        }
        channel.read(ByteBuffer.allocate(10));
        channel.read(ByteBuffer.allocate(10));
        peer.send(new DatagramPacket(new byte[0], 0, address(channel)));
        peer.send(new DatagramPacket(bytes("next"), 4, address(channel)));
        Completion empty = recorder.nextGood(What.READ);
        assertEquals(0, empty.bytes());
        assertEquals(fixed ? null : peer.getLocalSocketAddress(), empty.sender());
        assertEquals("next", recorder.nextGood(What.READ).text());
        // Nor is it an end.
        channel.readExactly(ByteBuffer.allocate(4));
        peer.send(new DatagramPacket(new byte[0], 0, address(channel)));
        peer.send(new DatagramPacket(bytes("full"), 4, address(channel)));
        assertEquals("full", recorder.nextGood(What.READ).text());
      }
    }
  }

  @Test
  void anEmptyDatagramIsOneBehindAnUnreachablePort() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    int port;
    try (DatagramSocket peer = peer()) {
      channel.connectDatagram(peer.getLocalSocketAddress());
      port = peer.getLocalPort();
    }
    Throwable refused = null;
    while (refused == null) {
      channel.write(buffer("nobody is there"));
      refused = recorder.next(What.WRITE).error();
    }
    assertInstanceOf(PortUnreachableException.class, refused);
    channel.write(buffer("nobody is there"));
    recorder.nextGood(What.WRITE);
    channel.read(ByteBuffer.allocate(10));
    recorder.nextFailed(What.READ, PortUnreachableException.class);
    try (DatagramSocket peer = new DatagramSocket(port, loopback().getAddress())) {
      peer.send(new DatagramPacket(new byte[0], 0, address(channel)));
      channel.read(ByteBuffer.allocate(10));
      assertEquals(0, recorder.nextGood(What.READ).bytes());
    }
  }

  @Test
  void aDatagramThatIsTooLongIsAnError() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    try (DatagramSocket peer = peer()) {
      channel.write(ByteBuffer.allocate(70_000), peer.getLocalSocketAddress());
      recorder.nextFailed(What.WRITE, IOException.class);
      channel.read(ByteBuffer.allocate(1));
      channel.close();
      recorder.nextFailed(What.READ, AsynchronousCloseException.class);
      recorder.next(What.CLOSED);
    }
  }

  @Test
  void aFixedPeerIsTheOnlyOne() throws Exception {
    AsynchChannel channel = demultiplexor.datagram(loopback(), new Recorder());
    AsynchFutures futures = channel.futures();
    assertInstanceOf(
        NotYetConnectedException.class,
        Patience.awaitFailure(futures.write(buffer("x")), "a write without an address"));
    try (DatagramSocket peer = peer();
        DatagramSocket other = peer()) {
      channel.connectDatagram(peer.getLocalSocketAddress());
      assertInstanceOf(
          AlreadyConnectedException.class,
          Patience.awaitFailure(
              futures.write(buffer("x"), other.getLocalSocketAddress()), "a write to another"));
      assertThrows(
          AlreadyConnectedException.class,
          () -> channel.connectDatagram(other.getLocalSocketAddress()));
      Patience.await(futures.write(buffer("y"), peer.getLocalSocketAddress()), "a write");
      assertArrayEquals(bytes("y"), receive(peer));
    }
  }

  @Test
  void aFixedPeerThatIsNotThereFailsTheRead() throws Exception {
    AsynchChannel channel = demultiplexor.datagram(loopback(), new Recorder());
    SocketAddress nobody;
    try (DatagramSocket peer = peer()) {
      nobody = peer.getLocalSocketAddress();
    }
    channel.connectDatagram(nobody);
    var read = channel.futures().read(ByteBuffer.allocate(1));
    Patience.await(channel.futures().write(buffer("x")), "a write");
    assertInstanceOf(PortUnreachableException.class, Patience.awaitFailure(read, "the read"));
  }

  private static DatagramSocket peer() throws IOException {
    DatagramSocket peer =
        new DatagramSocket(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    peer.setSoTimeout((int) Patience.PATIENCE.toMillis());
    return peer;
  }

  private static byte[] receive(DatagramSocket peer) throws IOException {
    DatagramPacket packet = new DatagramPacket(new byte[100], 100);
    peer.receive(packet);
    return java.util.Arrays.copyOf(packet.getData(), packet.getLength());
  }
}
