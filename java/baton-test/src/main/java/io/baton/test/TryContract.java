package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.DelimiterNotFoundException;
import io.baton.Demultiplexor;
import io.baton.LimitReachedException;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;

/** What a thread that is no lane moves itself, and reads that it starts without a wake-up. */
public abstract class TryContract extends EngineContract {
  private static final int MUCH = 8 << 20;

  /**
   * Whether the engine has an endpoint that moves bytes on the calling thread.
   *
   * @return false if it leaves that to its lanes
   */
  protected boolean movesHere() {
    return true;
  }

  private static int tryUntilRead(AsynchChannel channel, ByteBuffer room) throws IOException {
    long end = System.nanoTime() + Patience.PATIENCE.toNanos();
    int bytes = channel.tryRead(room);
    while (bytes == 0 && System.nanoTime() - end < 0) {
      Thread.yield();
      bytes = channel.tryRead(room);
    }
    return bytes;
  }

  @Test
  void bytesMoveWhileTheLaneIsBusy() throws Exception {
    try (Demultiplexor one = builder().threads(1).open();
        Connection connection = connected(one, new Recorder())) {
      AsynchChannel channel = connection.channel();
      CountDownLatch goOn = held(one);
      try {
        for (IntFunction<ByteBuffer> kind :
            Arrays.<IntFunction<ByteBuffer>>asList(
                ByteBuffer::allocate, ByteBuffer::allocateDirect)) {
          ByteBuffer room = kind.apply(10).position(2).limit(8);
          assertEquals(0, channel.tryRead(room), "nothing has arrived");
          ByteBuffer out = kind.apply(10).put(1, bytes("hello")).position(1).limit(6);
          if (!movesHere()) {
            assertEquals(0, channel.tryWrite(out.asReadOnlyBuffer()));
            continue;
          }
          assertEquals(5, channel.tryWrite(out.asReadOnlyBuffer()));
          assertEquals(5, channel.tryWrite(out));
          assertEquals(6, out.position());
          assertEquals(6, out.limit());
          byte[] twice = connection.peer().getInputStream().readNBytes(10);
          assertEquals("hellohello", new String(twice));
          connection.peer().getOutputStream().write(bytes("01234567"));
          assertEquals(6, tryUntilRead(channel, room));
          assertEquals(8, room.position());
          assertEquals(8, room.limit());
          assertEquals('5', room.get(7));
          assertEquals(2, channel.tryRead(room.clear()));
          assertEquals('7', room.get(1));
        }
      } finally {
        goOn.countDown();
      }
    }
  }

  @Test
  void aTryWriteDoesNotOvertakeAWriteThatTheLaneHasNotSeen() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      CountDownLatch goOn = new CountDownLatch(1);
      channel.post(() -> Patience.await(goOn, "the test"));
      channel.write(buffer("first"));
      // The socket has room for it.
      int moved = channel.tryWrite(buffer("late"));
      goOn.countDown();
      assertEquals(0, moved, "a write is pending");
      recorder.nextGood(What.WRITE);
    }
  }

  @Test
  void nothingOvertakesWhatIsPending() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      channel.readExactly(ByteBuffer.allocate(4));
      connection.peer().getOutputStream().write(bytes("abc"));
      for (int i = 0; i < 100; i++) {
        assertEquals(0, channel.tryRead(ByteBuffer.allocate(1)), "a read is pending");
      }
      connection.peer().getOutputStream().write(bytes("d"));
      assertEquals("abcd", recorder.nextGood(What.READ).text());
      channel.write(ByteBuffer.allocate(MUCH));
      assertEquals(0, channel.tryWrite(buffer("late")), "a write is pending");
      channel.shutdownOutput();
      assertEquals(MUCH, connection.peer().getInputStream().readAllBytes().length);
      recorder.nextGood(What.WRITE);
      recorder.nextGood(What.WRITE);
      assertEquals(0, channel.tryWrite(buffer("late")), "the output has ended");
      channel.write(buffer("late"));
      recorder.nextFailed(What.WRITE, ClosedChannelException.class);
    }
  }

  @Test
  void aStartThatWasRefusedDoesNotCount() throws Exception {
    if (!movesHere()) {
      return;
    }
    Recorder recorder = new Recorder();
    try (Demultiplexor few = builder().operationsMax(1).open();
        Connection connection = connected(few, recorder)) {
      AsynchChannel channel = connection.channel();
      channel.read(ByteBuffer.allocate(1));
      assertThrows(LimitReachedException.class, () -> channel.write(buffer("x")));
      assertEquals(1, channel.tryWrite(buffer("x")));
      assertThrows(LimitReachedException.class, () -> channel.read(ByteBuffer.allocate(1)));
      connection.peer().getOutputStream().write(bytes("ab"));
      recorder.nextGood(What.READ);
      assertEquals(1, tryUntilRead(channel, ByteBuffer.allocate(1)));
    }
  }

  @Test
  void aLongBufferKeepsItsLimit() throws Exception {
    if (!movesHere()) {
      return;
    }
    try (Connection connection = connected(new Recorder())) {
      AsynchChannel channel = connection.channel();
      ByteBuffer out = ByteBuffer.allocate(MUCH);
      Arrays.fill(out.array(), (byte) 7);
      CompletableFuture<byte[]> in =
          CompletableFuture.supplyAsync(
              () -> {
                try {
                  return connection.peer().getInputStream().readNBytes(MUCH);
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              });
      while (out.hasRemaining()) {
        int before = out.position();
        int bytes = channel.tryWrite(out);
        assertEquals(before + bytes, out.position());
        assertEquals(MUCH, out.limit());
        Thread.yield();
      }
      assertArrayEquals(out.array(), Patience.await(in, "the bytes"));
    }
  }

  @Test
  void theEndOfAStreamAndOfAChannel() throws Exception {
    try (Connection connection = connected(new Recorder())) {
      AsynchChannel channel = connection.channel();
      connection.peer().getOutputStream().write(bytes("x"));
      connection.peer().shutdownOutput();
      if (movesHere()) {
        assertEquals(1, tryUntilRead(channel, ByteBuffer.allocate(10)));
        assertEquals(-1, tryUntilRead(channel, ByteBuffer.allocate(10)));
        assertEquals(-1, channel.tryRead(ByteBuffer.allocate(10)));
        assertEquals(1, channel.tryWrite(buffer("y")));
        assertEquals('y', connection.peer().getInputStream().read());
      }
      channel.close();
      assertEquals(0, channel.tryRead(ByteBuffer.allocate(10)));
      assertEquals(0, channel.tryWrite(buffer("z")));
    }
  }

  @Test
  void aResetThatAWriteHasFoundIsNoEndForReads() throws Exception {
    if (!movesHere()) {
      return;
    }
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      connection.peer().setSoLinger(true, 0);
      connection.peer().close();
      assertThrows(
          IOException.class,
          () -> {
            while (true) {
              channel.tryWrite(buffer("x"));
            }
          });
      assertThrows(SocketException.class, () -> channel.tryRead(ByteBuffer.allocate(1)));
      channel.read(ByteBuffer.allocate(1));
      recorder.nextFailed(What.READ, SocketException.class);
    }
  }

  @Test
  void aResetThatAWriteOfTheLaneHasFoundIsNoEndEither() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      channel.write(ByteBuffer.allocateDirect(16 << 20));
      connection.peer().getInputStream().readNBytes(1);
      connection.peer().setSoLinger(true, 0);
      connection.peer().close();
      recorder.nextFailed(What.WRITE, IOException.class);
      if (movesHere()) {
        assertThrows(SocketException.class, () -> channel.tryRead(ByteBuffer.allocate(1)));
      }
      channel.read(ByteBuffer.allocate(1));
      recorder.nextFailed(What.READ, SocketException.class);
    }
  }

  /** It may be a loss that the write is told of, and the system reports one once. */
  @Test
  void anEndBesideAWriteOfTheLaneIsForTheLaneToTell() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      channel.write(ByteBuffer.allocateDirect(MUCH));
      connection.peer().shutdownOutput();
      channel.read(ByteBuffer.allocate(1));
      assertEquals(0, recorder.nextGood(What.READ).bytes());
      assertEquals(0, channel.tryRead(ByteBuffer.allocate(1)));
      assertEquals(MUCH, connection.peer().getInputStream().readNBytes(MUCH).length);
      recorder.nextGood(What.WRITE);
      assertEquals(movesHere() ? -1 : 0, channel.tryRead(ByteBuffer.allocate(1)));
    }
  }

  /** Nothing may come any more, and the lane sleeps in between. */
  @Test
  void aReadUntilThatNeedsNoInputDoesNotWaitForSome() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      ByteBuffer room = ByteBuffer.allocate(400);
      channel.readUntil(room, bytes(";"));
      onLane(channel, () -> {});
      int lines = 200;
      connection.peer().getOutputStream().write(bytes("l;".repeat(lines)));
      recorder.nextGood(What.READ);
      for (int i = 1; i < lines; i++) {
        room.position(2).compact();
        channel.readUntil(room, bytes(";"));
        recorder.nextGood(What.READ);
      }
      ByteBuffer full = ByteBuffer.allocate(4).position(4);
      channel.readUntil(full, bytes(";"));
      recorder.nextFailed(What.READ, DelimiterNotFoundException.class);
    }
  }

  @Test
  void onlyAConnectedStream() throws Exception {
    AsynchChannel stream = demultiplexor.openStream(new Recorder());
    assertEquals(0, stream.tryRead(ByteBuffer.allocate(1)));
    assertEquals(0, stream.tryWrite(ByteBuffer.allocate(1)));
    for (AsynchChannel other :
        Arrays.asList(
            demultiplexor.listen(loopback(), new Recorder()),
            demultiplexor.datagram(loopback(), new Recorder()))) {
      var why =
          assertThrows(
              UnsupportedOperationException.class, () -> other.tryRead(ByteBuffer.allocate(1)));
      assertTrue(why.getMessage().startsWith("tryRead needs a stream"), why::getMessage);
      assertThrows(UnsupportedOperationException.class, () -> other.tryWrite(buffer("x")));
      other.close();
    }
    assertThrows(
        IllegalArgumentException.class,
        () -> stream.tryRead(ByteBuffer.allocate(1).asReadOnlyBuffer()));
    assertThrows(IllegalArgumentException.class, () -> stream.tryWrite(ByteBuffer.allocate(0)));
    assertThrows(NullPointerException.class, () -> stream.tryRead(null));
    stream.close();
  }

  /**
   * The bytes come before the read, while it is handed over, or later: whatever the lane does then,
   * it finds both.
   */
  @Test
  void aReadThatIsHandedOverFindsItsData() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      CompletableFuture<Void> sent =
          CompletableFuture.runAsync(
              () -> {
                try {
                  for (int i = 0; i < 5_000; i++) {
                    connection.peer().getOutputStream().write(i);
                    connection.peer().getInputStream().read();
                  }
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              });
      ByteBuffer room = ByteBuffer.allocate(10);
      for (int i = 0; i < 5_000; i++) {
        for (int pause = ThreadLocalRandom.current().nextInt(2_000); pause > 0; pause--) {
          Thread.onSpinWait();
        }
        channel.read(room.clear());
        assertEquals(1, recorder.nextGood(What.READ).bytes());
        assertEquals((byte) i, room.get(0));
        connection.channel().write(buffer("y"));
        recorder.nextGood(What.WRITE);
      }
      Patience.await(sent, "the peer");
    }
  }

  @Test
  void aReadThatIsHandedOverCanBeCancelledAndClosed() throws Exception {
    for (int i = 0; i < 200; i++) {
      Recorder recorder = new Recorder();
      Connection connection = connected(recorder);
      connection.peer().getOutputStream().write(1);
      connection.channel().read(ByteBuffer.allocate(1));
      recorder.nextGood(What.READ);
      long second = connection.channel().read(ByteBuffer.allocate(1));
      if (i % 2 == 0) {
        assertTrue(connection.channel().cancel(second));
      } else {
        connection.channel().close();
      }
      recorder.nextFailed(What.READ, IOException.class);
      connection.close();
      recorder.next(What.CLOSED);
    }
  }
}
