package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.test.DirectEcho;
import io.baton.test.Patience;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How many native calls an echoed message costs: batches, not calls for each operation. */
class CallsPerMessageTest {
  private static final class Listener implements AsynchHandler {
    @Override
    public void onAcceptCompleted(OpAccept opAccept) throws IOException {
      if (opAccept.getError() == null) {
        DirectEcho echo = new DirectEcho();
        echo.start(opAccept.open(echo));
        opAccept.getAsynchChannel().accept();
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"io_uring", "emulated"})
  void oneConnectionCostsTwoCalls(String engine) throws Exception {
    try (Server server = new Server(engine, 1)) {
      server.write();
      server.read();
      long before = server.watched.count();
      int messages = 4000;
      for (int i = 0; i < messages; i++) {
        server.write();
        server.read();
      }
      // The lane may be one call further than at the beginning.
      check(engine, 1, server.watched.count() - before - 1, messages, 2.0);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"io_uring", "emulated"})
  void fortyConnectionsCostATenthOfACall(String engine) throws Exception {
    int connections = 40;
    try (Server server = new Server(engine, connections)) {
      int rounds = 200;
      long calls = 0;
      CountDownLatch release = server.holdUp();
      for (int i = 0; i < rounds; i++) {
        // All messages of the round are there when the lane looks, as from a client that does not
        // wait for one before it sends the next.
        server.write();
        long before = server.calls();
        release.countDown();
        server.read();
        release = server.holdUp();
        calls += server.calls() - before;
      }
      release.countDown();
      check(engine, connections, calls, rounds * connections, 0.1);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"io_uring", "emulated"})
  void aBurstOfConnectionsIsTakenInFewTurns(String engine) throws Exception {
    int connections = 100;
    CountDownLatch accepted = new CountDownLatch(connections);
    AsynchHandler counting =
        new AsynchHandler() {
          @Override
          public void onAcceptCompleted(OpAccept opAccept) {
            if (opAccept.getError() == null) {
              opAccept.getAsynchChannel().accept();
              accepted.countDown();
            }
          }
        };
    WatchedCalls watched = WatchedCalls.on(engine);
    List<Socket> clients = new ArrayList<>();
    try (Demultiplexor demultiplexor = Demultiplexor.builder().engine(watched).threads(1).open()) {
      AsynchChannel listener =
          demultiplexor.listen(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), counting);
      InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
      for (int i = 0; i < connections; i++) {
        clients.add(new Socket(address.getAddress(), address.getPort()));
      }
      long before = watched.count();
      listener.accept();
      Patience.await(accepted, "the connections");
      // Each is accepted, asked for its peer's address, and closed here. The rest are turns.
      long turns = watched.count() - before - 3L * connections;
      assertTrue(turns < connections / 4, "turns and wake-ups for the burst: " + turns);
    } finally {
      for (Socket client : clients) {
        client.close();
      }
    }
  }

  private static void check(String engine, int connections, long calls, int messages, double most) {
    double each = (double) calls / messages;
    System.out.printf(
        "native calls a message, %s, %d connections: %.3f%n", engine, connections, each);
    assertTrue(each <= most, "native calls a message: " + each);
  }

  /** An echo server with one lane, and its clients. */
  private static final class Server implements AutoCloseable {
    final WatchedCalls watched;
    private final Demultiplexor demultiplexor;
    private final List<Socket> clients = new ArrayList<>();
    private final byte[] message = new byte[DirectEcho.SIZE];

    Server(String engine, int connections) throws IOException {
      watched = WatchedCalls.on(engine);
      demultiplexor = Demultiplexor.builder().engine(watched).threads(1).open();
      AsynchChannel listener =
          demultiplexor.listen(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new Listener());
      listener.accept();
      InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
      for (int i = 0; i < connections; i++) {
        Socket client = new Socket(address.getAddress(), address.getPort());
        client.setTcpNoDelay(true);
        clients.add(client);
      }
      // Every connection is accepted, and reads.
      write();
      read();
    }

    void write() throws IOException {
      for (Socket client : clients) {
        client.getOutputStream().write(message);
      }
    }

    void read() throws IOException {
      for (Socket client : clients) {
        client.getInputStream().readNBytes(message, 0, DirectEcho.SIZE);
      }
    }

    /** Returns when the lane is in a handler, which ends by the latch. */
    CountDownLatch holdUp() {
      CountDownLatch held = new CountDownLatch(1);
      CountDownLatch release = new CountDownLatch(1);
      demultiplexor.post(
          () -> {
            held.countDown();
            Patience.await(release, "the release of the lane");
          });
      Patience.await(held, "the lane");
      return release;
    }

    /** The lane's own. */
    long calls() {
      return watched.count() - watched.wakes();
    }

    @Override
    public void close() throws IOException {
      for (Socket client : clients) {
        client.close();
      }
      demultiplexor.stop(Patience.PATIENCE).join();
    }
  }
}
