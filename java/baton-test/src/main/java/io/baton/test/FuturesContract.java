package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.ChannelClosedException;
import io.baton.Demultiplexor;
import io.baton.OperationCancelledException;
import io.baton.OperationTimedOutException;
import io.baton.PooledBuffer;
import io.baton.test.Completion.What;
import java.io.EOFException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Every operation with a future in place of the handler's method. */
public abstract class FuturesContract extends EngineContract {
  private static final Duration SOON = Duration.ofMillis(5);
  private static final Duration NEVER = Duration.ofDays(1_000_000);
  private static final int MUCH = 32 << 20;

  private static void isCancelled(CompletableFuture<?> future, String what) {
    assertTrue(future.cancel(true), what);
    Throwable why = Patience.awaitFailure(future, what);
    assertInstanceOf(OperationCancelledException.class, why, what);
    assertFalse(future.cancel(true), what);
    assertFalse(future.isCancelled(), what);
  }

  private static void isLate(CompletableFuture<?> future, String what) {
    Throwable why = Patience.awaitFailure(future, what);
    assertInstanceOf(OperationTimedOutException.class, why, what);
  }

  private static ByteBuffer room(int bytes) {
    return ByteBuffer.allocate(bytes);
  }

  @Test
  void aStream() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchFutures futures = connection.channel().futures();
      var out = connection.peer().getOutputStream();
      out.write(bytes("abcdef;rest"));
      ByteBuffer some = room(2);
      assertEquals(2, Patience.await(futures.read(some, NEVER), "a read"));
      assertEquals("ab", new String(some.array()));
      assertEquals(3, Patience.await(futures.readExactly(room(3), NEVER), "an exact read"));
      ByteBuffer line = room(100);
      byte[] delimiter = bytes(";");
      var until = new AtomicReference<CompletableFuture<Integer>>();
      onLane(
          connection.channel(),
          () -> {
            until.set(futures.readUntil(line, delimiter, NEVER));
            // The program's again.
            delimiter[0] = 'x';
          });
      assertEquals(2, Patience.await(until.get(), "a line"));
      assertEquals('f', line.get(0));
      // A read-until may have taken what is behind the delimiter.
      if (line.limit() < 6) {
        Patience.await(futures.readExactly(room(6 - line.limit())), "the rest");
      }
      out.write(bytes("pool"));
      PooledBuffer block = Patience.await(futures.readPooled(NEVER), "a pooled read");
      assertEquals("pool".length(), block.getBuffer().remaining());
      assertEquals(4, Patience.await(futures.write(block), "a pooled write"));
      assertThrows(IllegalStateException.class, block::close);
      assertEquals(5, Patience.await(futures.write(buffer("timed"), NEVER), "a write"));
      Patience.await(futures.shutdownOutput(), "the end of output");
      assertEquals("pooltimed", new String(connection.peer().getInputStream().readAllBytes()));
      connection.peer().shutdownOutput();
      assertEquals(0, Patience.await(futures.read(room(1)), "the end"));
      assertNull(Patience.await(futures.readPooled(), "the end, pooled"));
      assertInstanceOf(
          EOFException.class, Patience.awaitFailure(futures.readExactly(room(1)), "the end"));
      assertEquals(0, recorder.waiting(), "futures and handler at once");
    }
  }

  @Test
  void deadlines() throws Exception {
    try (Connection connection = connected(new Recorder())) {
      AsynchFutures futures = connection.channel().futures();
      isLate(futures.read(room(9), SOON), "read");
      isLate(futures.readPooled(SOON), "readPooled");
      isLate(futures.readExactly(room(9), SOON), "readExactly");
      isLate(futures.readUntil(room(9), bytes("\n"), SOON), "readUntil");
      isLate(futures.write(room(MUCH), SOON), "write");
    }
    AsynchChannel datagram = demultiplexor.datagram(loopback(), new Recorder());
    isLate(datagram.futures().receive(room(9), SOON), "receive");
    try (FullListener full = new FullListener()) {
      AsynchFutures stream = demultiplexor.openStream(new Recorder()).futures();
      isLate(stream.connect(full.address(), SOON), "connect");
    }
  }

  @Test
  void aCancelReachesEveryOperation() throws Exception {
    Recorder recorder = new Recorder();
    try (Demultiplexor wide = builder().writeBytesMax(2 * MUCH).open();
        Connection connection = connected(wide, recorder)) {
      AsynchFutures futures = connection.channel().futures();
      isCancelled(futures.read(room(9)), "read");
      isCancelled(futures.readExactly(room(9)), "readExactly");
      isCancelled(futures.readUntil(room(9), bytes("\n")), "readUntil");
      isCancelled(futures.readPooled(), "readPooled");
      isCancelled(futures.startTimer(NEVER), "startTimer");
      CompletableFuture<Integer> first = futures.read(room(9));
      isCancelled(futures.read(room(9)), "a read in the queue");
      CompletableFuture<Integer> write = futures.write(room(MUCH));
      isCancelled(futures.write(room(1)), "a write in the queue");
      isCancelled(futures.shutdownOutput(), "shutdownOutput in the queue");
      isCancelled(write, "write");
      // Nothing was taken by those that are gone.
      connection.peer().getOutputStream().write(bytes("all"));
      assertEquals(3, Patience.await(first, "the read that is left"));
      assertEquals(0, recorder.waiting(), "futures and handler at once");
    }
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    isCancelled(listener.futures().accept(new Recorder()), "accept");
    AsynchChannel datagram = demultiplexor.datagram(loopback(), new Recorder());
    isCancelled(datagram.futures().receive(room(9)), "receive");
  }

  @Test
  void datagrams() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    AsynchFutures futures = channel.futures();
    try (DatagramSocket peer = new DatagramSocket(loopback())) {
      peer.setSoTimeout((int) Patience.PATIENCE.toMillis());
      assertEquals(
          3,
          Patience.await(futures.write(buffer("out"), peer.getLocalSocketAddress()), "a datagram"));
      DatagramPacket packet = new DatagramPacket(new byte[9], 9);
      peer.receive(packet);
      assertEquals(3, packet.getLength());
      for (Duration time : new Duration[] {null, NEVER}) {
        ByteBuffer in = room(9).position(2);
        var sender = time == null ? futures.receive(in) : futures.receive(in, time);
        peer.send(new DatagramPacket(bytes("in"), 2, address(channel)));
        assertEquals(peer.getLocalSocketAddress(), Patience.await(sender, "a datagram"));
        byte[] came = new byte[in.remaining()];
        in.get(came);
        assertArrayEquals(bytes("in"), came);
      }
      channel.connectDatagram(peer.getLocalSocketAddress());
      var sender = futures.receive(room(9));
      peer.send(new DatagramPacket(bytes("in"), 2, address(channel)));
      assertNull(Patience.await(sender, "a datagram of the fixed peer"));
    }
    assertEquals(0, recorder.waiting(), "futures and handler at once");
  }

  @Test
  void files(@TempDir Path folder) throws Exception {
    Path path = Files.writeString(folder.resolve("f"), "first\nsecond");
    Recorder recorder = new Recorder();
    AsynchChannel file =
        demultiplexor.file(path, recorder, StandardOpenOption.READ, StandardOpenOption.WRITE);
    AsynchFutures futures = file.futures();
    assertEquals(6, Patience.await(futures.readUntil(room(99), bytes("\n")), "a line"));
    ByteBuffer second = room(6);
    assertEquals(6, Patience.await(futures.read(second, 6L), "a read at a position"));
    assertEquals("second", new String(second.array()));
    assertEquals(0, Patience.await(futures.read(room(1), 1000L), "a read behind the end"));
    assertEquals(1, Patience.await(futures.write(buffer("F"), 0L), "a write at a position"));
    Patience.await(futures.sync(), "the sync");
    assertEquals("First\nsecond", Files.readString(path));
    Patience.await(futures.close(), "the close");
    assertEquals(What.CLOSED, recorder.nextAny().what());
    assertEquals(0, recorder.waiting(), "futures and handler at once");
  }

  @Test
  void connectsAndTimers() throws Exception {
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    CompletableFuture<AsynchChannel> accepted = listener.futures().accept(new Recorder());
    AsynchChannel client = demultiplexor.openStream(new Recorder());
    Patience.await(client.futures().connect(address(listener), NEVER), "the connect");
    Patience.await(accepted, "the accept");
    Patience.await(client.futures().startTimer(SOON), "the timer");
    Patience.await(client.futures().startTimer(Duration.ZERO), "the timer");
    CompletableFuture<Void> left = client.futures().startTimer(NEVER);
    // On the lane, so that it is not closed before.
    onLane(client, () -> assertTrue(client.futures().close().cancel(true)));
    Patience.await(client.futures().close(), "the close");
    assertInstanceOf(
        AsynchronousCloseException.class, Patience.awaitFailure(left, "the timer of the closed"));
    assertThrows(ChannelClosedException.class, () -> client.futures().startTimer(SOON));
  }

  @Test
  void theLaneCompletesThem() throws Exception {
    try (Connection connection = connected(new Recorder())) {
      AsynchChannel channel = connection.channel();
      Thread[] lane = new Thread[1];
      onLane(channel, () -> lane[0] = Thread.currentThread());
      CompletableFuture<Thread> reader =
          channel.futures().read(room(1)).thenApply(bytes -> Thread.currentThread());
      CompletableFuture<Thread> cancelled = new CompletableFuture<>();
      CompletableFuture<Integer> second = channel.futures().read(room(1));
      second.whenComplete((bytes, error) -> cancelled.complete(Thread.currentThread()));
      second.cancel(false);
      assertSame(lane[0], Patience.await(cancelled, "the cancelled read"));
      connection.peer().getOutputStream().write('a');
      assertSame(lane[0], Patience.await(reader, "the read"));
      // A stage that throws is the program's own affair.
      CompletableFuture<Integer> third = channel.futures().read(room(1));
      CompletableFuture<Integer> thrown =
          third.thenApply(
              bytes -> {
                throw new IllegalStateException("thrown by the test");
              });
      connection.peer().getOutputStream().write('b');
      Patience.awaitFailure(thrown, "the stage");
      assertTrue(channel.isOpen());
    }
  }

  @Test
  void aBlockThatIsReadTooLateGoesBackToItsPool() throws Exception {
    try (Demultiplexor one = builder().threads(1).pooledBuffersMax(1).open()) {
      // Datagrams, so that one read cannot take what is meant for the other.
      AsynchChannel channel = one.datagram(loopback(), new Recorder());
      // In contrast to complete() it does not ask for the end of the read.
      channel.futures().readPooled().obtrudeValue(null);
      // Behind it, and there is one block only.
      CompletableFuture<PooledBuffer> next = channel.futures().readPooled();
      try (DatagramSocket peer = new DatagramSocket(loopback())) {
        peer.send(new DatagramPacket(bytes("a"), 1, address(channel)));
        peer.send(new DatagramPacket(bytes("b"), 1, address(channel)));
        PooledBuffer block = Patience.await(next, "the next read");
        assertEquals('b', block.getBuffer().get(0));
        block.close();
      }
    }
  }

  @Test
  void whatTheProgramCompletesLaterEndsItsOperation() throws Exception {
    try (Connection connection = connected(new Recorder())) {
      AsynchChannel channel = connection.channel();
      CompletableFuture<Integer> write = channel.futures().write(room(MUCH));
      assertEquals(7, Patience.await(write.completeAsync(() -> 7), "the program"));
      long end = System.nanoTime() + Patience.PATIENCE.toNanos();
      while (channel.getQueuedBytes() > 0) {
        assertTrue(end - System.nanoTime() > 0, "the write goes on");
        Thread.onSpinWait();
      }
    }
  }

  @Test
  void badInputThrowsAndThereIsNoFuture(@TempDir Path folder) throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel stream = demultiplexor.openStream(recorder);
    AsynchFutures futures = stream.futures();
    AsynchFutures file =
        demultiplexor
            .file(
                folder.resolve("f"), recorder, StandardOpenOption.CREATE, StandardOpenOption.WRITE)
            .futures();
    AsynchFutures listener = demultiplexor.listen(loopback(), recorder).futures();
    Executable[] unsupported = {
      () -> futures.read(room(1), 0L),
      () -> futures.write(room(1), 0L),
      () -> futures.write(room(1), loopback()),
      () -> futures.receive(room(1)),
      () -> futures.sync(),
      () -> futures.accept(recorder),
      () -> file.readPooled(),
      () -> file.receive(room(1), SOON),
      () -> file.connect(loopback(), SOON),
      () -> file.shutdownOutput(),
      () -> listener.read(room(1), SOON),
    };
    for (Executable call : unsupported) {
      assertThrows(UnsupportedOperationException.class, call);
    }
    Executable[] wrong = {
      () -> futures.read(room(0), SOON),
      () -> futures.read(room(1), Duration.ZERO),
      () -> futures.readExactly(room(1), Duration.ZERO),
      () -> futures.readUntil(room(1), bytes("\n"), Duration.ZERO),
      () -> futures.readUntil(room(1), new byte[0], SOON),
      () -> futures.readPooled(Duration.ZERO),
      () -> futures.write(room(0), SOON),
      () -> futures.write(room(1), Duration.ZERO),
      () -> futures.connect(loopback(), Duration.ZERO),
      () -> futures.startTimer(Duration.ofNanos(-1)),
      () -> file.read(room(1), -1L),
      () -> file.write(room(1), -1L),
      () -> listener.receive(room(0)),
    };
    for (Executable call : wrong) {
      assertThrows(IllegalArgumentException.class, call);
    }
    assertEquals(0, stream.getQueuedBytes());
  }
}
