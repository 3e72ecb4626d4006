package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How many native calls an echoed message costs: batches, not calls for each operation. */
class CallsPerMessageTest {
  private static final int SIZE = 512;
  private static final int WARM_UP = 100;

  /** Echoes through one direct buffer. */
  private static final class Echo implements AsynchHandler {
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(SIZE);

    @Override
    public void onReadCompleted(OpRead opRead) {
      if (opRead.getError() != null || opRead.getBytesCompleted() == 0) {
        opRead.getAsynchChannel().close();
      } else {
        opRead.getAsynchChannel().write(opRead.getBuffer());
      }
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      opWrite.getAsynchChannel().read(buffer.clear());
    }
  }

  private static final class Listener implements AsynchHandler {
    @Override
    public void onAcceptCompleted(OpAccept opAccept) throws IOException {
      if (opAccept.getError() == null) {
        Echo echo = new Echo();
        opAccept.open(echo).read(echo.buffer);
        opAccept.getAsynchChannel().accept();
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "io_uring, 1, 4000, 2.0",
    "emulated, 1, 4000, 2.0",
    "io_uring, 40, 200, 0.1",
    "emulated, 40, 200, 0.1"
  })
  void areFew(String engine, int connections, int messages, double most) throws Exception {
    WatchedCalls watched = WatchedCalls.on(engine);
    try (Demultiplexor demultiplexor = Demultiplexor.builder().engine(watched).threads(1).open()) {
      AsynchChannel listener =
          demultiplexor.listen(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new Listener());
      listener.accept();
      InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
      List<Socket> clients = new ArrayList<>();
      for (int i = 0; i < connections; i++) {
        Socket client = new Socket(address.getAddress(), address.getPort());
        client.setTcpNoDelay(true);
        clients.add(client);
      }
      double calls = 0;
      // A lane that is faster than this thread finds fewer messages in a turn.
      for (int attempt = 0; attempt < 20; attempt++) {
        echo(clients, WARM_UP);
        long before = watched.count();
        echo(clients, messages);
        calls = (double) (watched.count() - before) / (messages * connections);
        if (calls <= most) {
          break;
        }
      }
      System.out.printf(
          "native calls a message, %s, %d connections: %.3f%n", engine, connections, calls);
      assertTrue(calls <= most, "native calls a message: " + calls);
      for (Socket client : clients) {
        client.close();
      }
    }
  }

  private static void echo(List<Socket> clients, int messages) throws IOException {
    byte[] message = new byte[SIZE];
    for (int i = 0; i < messages; i++) {
      for (Socket client : clients) {
        client.getOutputStream().write(message);
      }
      for (Socket client : clients) {
        client.getInputStream().readNBytes(message, 0, SIZE);
      }
    }
  }
}
