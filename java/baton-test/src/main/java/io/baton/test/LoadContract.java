package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.ChannelClosedException;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.OpRead;
import io.baton.OpWrite;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Many connections, both directions at once, slow peers. Every byte is compared. */
public abstract class LoadContract extends EngineContract {

  /** Echoes with pooled reads: a block is read into, written, and given back. */
  static final class PooledEcho implements AsynchHandler {
    @Override
    public void onReadCompleted(OpRead opRead) {
      AsynchChannel channel = opRead.getAsynchChannel();
      if (opRead.getError() != null || opRead.getBytesCompleted() == 0) {
        channel.close();
        return;
      }
      channel.write(opRead.takePooled());
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      AsynchChannel channel = opWrite.getAsynchChannel();
      if (opWrite.getError() != null) {
        channel.close();
        return;
      }
      try {
        channel.readPooled();
      } catch (ChannelClosedException e) {
        // The test has its bytes, and closes the demultiplexor.
      }
    }
  }

  /** Accepts for ever, with an echo for each connection. */
  static final class EchoListener implements AsynchHandler {
    @Override
    public void onAcceptCompleted(OpAccept opAccept) throws IOException {
      if (opAccept.getError() == null) {
        opAccept.open(new PooledEcho()).readPooled();
        opAccept.getAsynchChannel().accept();
      }
    }
  }

  /** Sends messages of its own pattern and compares the answers. */
  private static final class Client implements AsynchHandler {
    private static final int MESSAGES = 5;

    private final SplittableRandom pattern;
    private final CountDownLatch done;
    private final ByteBuffer sent = ByteBuffer.allocate(512);
    private final ByteBuffer back = ByteBuffer.allocate(512);
    private int left = MESSAGES;

    Client(long seed, CountDownLatch done) {
      pattern = new SplittableRandom(seed);
      this.done = done;
    }

    void send(AsynchChannel channel) {
      pattern.nextBytes(sent.clear().array());
      int length = 1 + pattern.nextInt(sent.capacity());
      channel.write(sent.limit(length));
      channel.readExactly(back.clear().limit(length));
    }

    @Override
    public void onConnectCompleted(io.baton.OpConnect opConnect) {
      if (opConnect.getError() != null) {
        throw new AssertionError("connect", opConnect.getError());
      }
      send(opConnect.getAsynchChannel());
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      if (opWrite.getError() != null) {
        throw new AssertionError("write", opWrite.getError());
      }
    }

    @Override
    public void onReadCompleted(OpRead opRead) {
      if (opRead.getError() != null) {
        throw new AssertionError("read", opRead.getError());
      }
      assertEquals(sent.flip(), opRead.getBuffer());
      if (--left > 0) {
        send(opRead.getAsynchChannel());
      } else {
        opRead.getAsynchChannel().close();
        done.countDown();
      }
    }
  }

  @Test
  void aThousandConnectionsToTheByte() throws Exception {
    AsynchChannel listener = demultiplexor.listen(loopback(), new EchoListener());
    listener.accept();
    int connections = 1000;
    CountDownLatch done = new CountDownLatch(connections);
    for (int i = 0; i < connections; i++) {
      demultiplexor.connect(address(listener), new Client(i, done));
    }
    Patience.await(done, "the last of " + connections + " clients");
    assertTrue(demultiplexor.getPooledBuffers() <= 2 * 256);
  }

  @Test
  void fullDuplexToTheByte() throws Exception {
    int pieces = 500;
    byte[] out = new byte[pieces * 4096];
    byte[] in = new byte[pieces * 4096];
    new SplittableRandom(1).nextBytes(out);
    new SplittableRandom(2).nextBytes(in);
    byte[] came = new byte[in.length];
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      // Both directions are full all the time: the peer writes and reads at once, too.
      for (int i = 0; i < pieces; i++) {
        connection.channel().write(ByteBuffer.wrap(out, i * 4096, 4096));
      }
      connection.channel().readExactly(ByteBuffer.wrap(came));
      Thread writer =
          new Thread(
              () -> {
                try {
                  connection.peer().getOutputStream().write(in);
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              });
      writer.start();
      assertArrayEquals(out, connection.peer().getInputStream().readNBytes(out.length));
      Patience.await(writer);
      int writes = 0;
      int reads = 0;
      while (writes + reads < pieces + 1) {
        Completion one = recorder.nextAny();
        assertEquals(null, one.error());
        writes += one.what() == What.WRITE ? 1 : 0;
        reads += one.what() == What.READ ? 1 : 0;
      }
      assertEquals(1, reads);
      assertArrayEquals(in, came);
    }
  }

  @Test
  void slowReadersHoldUpNoOtherChannel() throws Exception {
    AtomicInteger written = new AtomicInteger();
    // More than the system buffers.
    int size = 32 << 20;
    byte[] shared = new byte[size];
    AsynchHandler flood =
        new AsynchHandler() {
          @Override
          public void onWriteCompleted(OpWrite opWrite) {
            assertEquals(null, opWrite.getError());
            written.incrementAndGet();
          }
        };
    Recorder accepting = new Recorder(() -> flood);
    AsynchChannel listener = demultiplexor.listen(loopback(), accepting);
    List<Socket> slow = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      listener.accept();
      slow.add(plainClient(listener));
      accepting.nextGood(What.ACCEPT).accepted().write(ByteBuffer.wrap(shared));
    }
    Recorder quick = new Recorder();
    try (Connection connection = connected(quick)) {
      OutputStream out = connection.peer().getOutputStream();
      for (int i = 0; i < 1000; i++) {
        connection.channel().read(ByteBuffer.allocate(1));
        out.write('a');
        quick.nextGood(What.READ);
      }
    }
    assertEquals(0, written.get(), "the peers have not read yet");
    for (Socket one : slow) {
      assertEquals(size, one.getInputStream().readNBytes(size).length);
    }
    for (Socket one : slow) {
      one.close();
    }
  }

  // Every system lets so many connections wait for an accept.
  private static final int WAITING = 100;
  private static final int SESSIONS = 64;

  /** A listener and busy sessions on one lane. */
  private static final class Crowd {
    CountDownLatch accepted = new CountDownLatch(WAITING);
    AsynchChannel listener;

    /** Starts the first accept, on the lane. */
    Runnable starter = () -> listener.accept();

    // For the lane's thread.
    private int busy;
    private int reads;
    private int readsUntilLast;
    private int inARow;
    private int longestRow;

    /** Accepts what waits. */
    final class Accepting implements AsynchHandler {
      @Override
      public void onAcceptCompleted(OpAccept opAccept) throws IOException {
        if (opAccept.getError() == null) {
          opAccept.open(new AsynchHandler() {});
          longestRow = Math.max(longestRow, ++inARow);
          readsUntilLast = reads;
          listener.accept();
          accepted.countDown();
        }
      }
    }

    /** Reads the bytes of its peer one by one, so that it always has something to do. */
    final class Session extends Recorder {
      private final ByteBuffer room = ByteBuffer.allocate(1);
      private boolean isBusy;

      @Override
      public void onReadCompleted(OpRead opRead) {
        if (opRead.getError() != null) {
          return;
        }
        reads++;
        inARow = 0;
        if (!isBusy) {
          isBusy = true;
          if (++busy == SESSIONS) {
            reads = 0;
            starter.run();
          }
        }
        read(opRead.getAsynchChannel());
      }

      void read(AsynchChannel channel) {
        try {
          channel.read(room.clear());
        } catch (ChannelClosedException e) {
          // The test has its numbers, and closes the demultiplexor.
        }
      }
    }
  }

  @Test
  void connectionsThatWaitAreAcceptedBesideBusySessions() throws Exception {
    Crowd crowd = new Crowd();
    serve(crowd, WAITING);
    assertTrue(
        crowd.readsUntilLast <= 10 * WAITING,
        () -> crowd.readsUntilLast + " reads before the last of " + WAITING + " connections");
    assertTrue(
        crowd.longestRow <= 64, () -> crowd.longestRow + " accepts before the next of the reads");
  }

  @Test
  void anAcceptOfAnotherThreadGoesBeforeBusySessions() throws Exception {
    Crowd crowd = new Crowd();
    crowd.accepted = new CountDownLatch(1);
    crowd.starter =
        () -> {
          Thread other = new Thread(() -> crowd.listener.accept());
          other.start();
          Patience.await(other);
        };
    serve(crowd, 1);
    assertTrue(
        crowd.readsUntilLast <= SESSIONS,
        () -> crowd.readsUntilLast + " reads before the connection, of " + SESSIONS + " sessions");
  }

  /** Has the connections that wait accepted while the sessions read. */
  private void serve(Crowd crowd, int connections) throws Exception {
    List<Connection> sessions = new ArrayList<>();
    List<Socket> waiting = new ArrayList<>();
    try (Demultiplexor one = builder().threads(1).open()) {
      crowd.listener = one.listen(loopback(), crowd.new Accepting());
      for (int i = 0; i < connections; i++) {
        waiting.add(plainClient(crowd.listener));
      }
      for (int i = 0; i < SESSIONS; i++) {
        Crowd.Session session = crowd.new Session();
        Connection connection = connected(one, session);
        sessions.add(connection);
        connection.peer().getOutputStream().write(new byte[16 << 10]);
        session.read(connection.channel());
      }
      Patience.await(crowd.accepted, "the last connection that waited");
    }
    for (Connection session : sessions) {
      session.close();
    }
    for (Socket client : waiting) {
      client.close();
    }
    // The lane has ended, so its numbers are visible to the caller.
  }

  @Test
  void manyStartersOfOneChannelLoseNothing() throws Exception {
    Recorder recorder = new Recorder();
    int threads = 4;
    int each = 200;
    try (Connection connection = connected(recorder)) {
      List<Thread> starters = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        byte mark = (byte) ('a' + i);
        Thread starter =
            new Thread(
                () -> {
                  for (int j = 0; j < each; j++) {
                    connection.channel().write(ByteBuffer.wrap(new byte[] {mark, (byte) j}));
                  }
                });
        starters.add(starter);
        starter.start();
      }
      byte[] came = connection.peer().getInputStream().readNBytes(2 * threads * each);
      int[] next = new int[threads];
      for (int i = 0; i < came.length; i += 2) {
        // Each thread's writes are whole, and in its order.
        assertEquals((byte) next[came[i] - 'a']++, came[i + 1]);
      }
      for (int i = 0; i < threads * each; i++) {
        recorder.nextGood(What.WRITE);
      }
      for (Thread starter : starters) {
        Patience.await(starter);
      }
    }
  }
}
