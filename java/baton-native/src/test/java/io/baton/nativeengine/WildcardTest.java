package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.baton.AsynchChannel;
import io.baton.DemultiplexorBuilder;
import io.baton.test.EngineContract;
import io.baton.test.Patience;
import io.baton.test.Recorder;
import java.net.DatagramPacket;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.ServerSocketChannel;
import org.junit.jupiter.api.Test;

/** The address 0.0.0.0 as a peer is this machine by IPv4, as the system and java.nio have it. */
class WildcardTest extends EngineContract {

  @Override
  protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
    return builder.engine("native");
  }

  @Test
  void aConnectFindsAListenerOfIpv4() throws Exception {
    for (String own : new String[] {"127.0.0.1", "0.0.0.0"}) {
      try (ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.INET)) {
        listener.bind(new InetSocketAddress(own, 0));
        InetSocketAddress peer = new InetSocketAddress("0.0.0.0", listener.socket().getLocalPort());
        AsynchChannel channel = demultiplexor.openStream(new Recorder());
        Patience.await(channel.futures().connect(peer), "the connect to " + own);
        channel.close();
      }
    }
  }

  @Test
  void aDatagramFindsASocketOfIpv4() throws Exception {
    try (DatagramChannel socket = DatagramChannel.open(StandardProtocolFamily.INET)) {
      socket.bind(new InetSocketAddress("127.0.0.1", 0));
      // A test that waited for one that is lost would never end.
      socket.socket().setSoTimeout((int) Patience.PATIENCE.toMillis());
      InetSocketAddress peer = new InetSocketAddress("0.0.0.0", socket.socket().getLocalPort());
      AsynchChannel sender = demultiplexor.openDatagram(new Recorder());
      AsynchChannel fixed = demultiplexor.openDatagram(new Recorder());
      fixed.connectDatagram(peer);
      Patience.await(sender.futures().write(ByteBuffer.wrap(new byte[] {1}), peer), "a send");
      Patience.await(fixed.futures().write(ByteBuffer.wrap(new byte[] {2})), "a write");
      DatagramPacket packet = new DatagramPacket(new byte[9], 9);
      for (int i = 1; i <= 2; i++) {
        socket.socket().receive(packet);
        assertEquals(i, packet.getData()[0]);
      }
    }
  }
}
