package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.ChannelClosedException;
import io.baton.Demultiplexor;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/**
 * A message allocates nothing on the heap. Counted per thread by the machine itself, over rounds of
 * messages, until one round is below a byte a message: the first ones load classes and link calls.
 * Start the machine with {@code -XX:-DoEscapeAnalysis}, or the compiler hides what it can.
 */
public abstract class AllocationContract extends EngineContract {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private static final int CONNECTIONS = 20;
  private static final int MESSAGES_A_ROUND = 5_000;
  private static final int ROUNDS = 10;
  private static final int SIZE = DirectEcho.SIZE;

  @Test
  void anEchoAllocatesNothing() throws Exception {
    measure(DirectEcho::new, channel -> channel.read(ByteBuffer.allocateDirect(SIZE)));
  }

  @Test
  void aPooledEchoAllocatesNothing() throws Exception {
    measure(LoadContract.PooledEcho::new, AsynchChannel::readPooled);
  }

  @Test
  void startsOfOtherThreadsAllocateNothing() throws Exception {
    Semaphore written = new Semaphore(0);
    AsynchHandler counting =
        new AsynchHandler() {
          @Override
          public void onWriteCompleted(OpWrite opWrite) {
            written.release();
          }
        };
    try (Demultiplexor one = builder().threads(1).open()) {
      AsynchChannel sink =
          one.datagram(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new Recorder());
      AsynchChannel source =
          one.datagram(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), counting);
      source.connectDatagram(sink.getLocalAddress());
      // In groups: waiting for a group allocates a little in this thread. A channel keeps 64
      // operations for their next use.
      ByteBuffer[] messages = new ByteBuffer[50];
      for (int i = 0; i < messages.length; i++) {
        messages[i] = ByteBuffer.allocateDirect(1);
      }
      long lane = laneOf(source);
      long self = Thread.currentThread().getId();
      belowAByteAMessage(
          () -> allocated(lane) + allocated(self),
          () -> {
            for (int i = 0; i < MESSAGES_A_ROUND / messages.length; i++) {
              for (ByteBuffer message : messages) {
                source.write(message.clear());
              }
              written.acquireUninterruptibly(messages.length);
            }
          });
    }
  }

  /**
   * How many peers send datagrams in turns.
   *
   * @return 1; more where the engine knows its peers again (channels of java.nio only know the
   *     last)
   */
  protected int datagramPeers() {
    return 1;
  }

  @Test
  void anEchoOfDatagramsAllocatesNothing() throws Exception {
    List<DatagramSocket> peers = new ArrayList<>();
    try (Demultiplexor one = builder().threads(1).open()) {
      AsynchChannel server =
          one.datagram(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new DatagramEcho());
      server.read(ByteBuffer.allocateDirect(SIZE));
      for (int i = 0; i < datagramPeers(); i++) {
        DatagramSocket peer = new DatagramSocket(0, InetAddress.getLoopbackAddress());
        peers.add(peer);
        peer.setSoTimeout((int) Patience.PATIENCE.toMillis());
        peer.connect(server.getLocalAddress());
      }
      long lane = laneOf(server);
      DatagramPacket packet = new DatagramPacket(new byte[SIZE], SIZE);
      belowAByteAMessage(
          () -> allocated(lane),
          () -> {
            for (int i = 0; i < MESSAGES_A_ROUND; i++) {
              DatagramSocket peer = peers.get(i % peers.size());
              peer.send(packet);
              peer.receive(packet);
            }
          });
    } finally {
      peers.forEach(DatagramSocket::close);
    }
  }

  /** Sends every datagram back to where it came from. */
  private static final class DatagramEcho implements AsynchHandler {
    @Override
    public void onReadCompleted(OpRead opRead) {
      if (opRead.getError() == null) {
        opRead.getAsynchChannel().write(opRead.getBuffer(), opRead.getSender());
      }
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      try {
        opWrite.getAsynchChannel().read(opWrite.getBuffer().clear());
      } catch (ChannelClosedException e) {
        // The test has its datagrams, and closes the demultiplexor.
      }
    }
  }

  private interface Start {
    void on(AsynchChannel channel);
  }

  private void measure(Supplier<AsynchHandler> handlers, Start start) throws Exception {
    try (Demultiplexor one = builder().threads(1).open()) {
      Recorder accepting = new Recorder(handlers);
      AsynchChannel listener =
          one.listen(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), accepting);
      List<Socket> clients = new ArrayList<>();
      for (int i = 0; i < CONNECTIONS; i++) {
        listener.accept();
        Socket client = plainClient(listener);
        client.setTcpNoDelay(true);
        clients.add(client);
        start.on(accepting.nextGood(Completion.What.ACCEPT).accepted());
      }
      long lane = laneOf(listener);
      byte[] message = new byte[SIZE];
      belowAByteAMessage(() -> allocated(lane), () -> oneRound(clients, message));
      for (Socket client : clients) {
        client.close();
      }
    }
  }

  private static void oneRound(List<Socket> clients, byte[] message) throws IOException {
    for (int i = 0; i < MESSAGES_A_ROUND / CONNECTIONS; i++) {
      for (Socket client : clients) {
        client.getOutputStream().write(message);
      }
      for (Socket client : clients) {
        client.getInputStream().readNBytes(message, 0, SIZE);
      }
    }
  }

  private interface Round {
    void run() throws IOException;
  }

  private static void belowAByteAMessage(Supplier<Long> allocated, Round round) throws IOException {
    List<Double> perMessage = new ArrayList<>();
    for (int i = 0; i < ROUNDS; i++) {
      long before = allocated.get();
      round.run();
      perMessage.add((double) (allocated.get() - before) / MESSAGES_A_ROUND);
      if (perMessage.get(i) < 1) {
        System.out.println("heap bytes a message, round by round: " + perMessage);
        return;
      }
    }
    assertTrue(false, "heap bytes a message, round by round: " + perMessage);
  }

  private static long allocated(long thread) {
    return THREADS.getThreadAllocatedBytes(thread);
  }

  private static long laneOf(AsynchChannel channel) {
    CompletableFuture<Long> lane = new CompletableFuture<>();
    channel.post(() -> lane.complete(Thread.currentThread().getId()));
    return Patience.await(lane, "the post");
  }
}
