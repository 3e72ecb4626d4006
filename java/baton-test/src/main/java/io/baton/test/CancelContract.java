package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.ChannelClosedException;
import io.baton.CloseReason;
import io.baton.LimitReachedException;
import io.baton.OpRead;
import io.baton.OperationCancelledException;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import org.junit.jupiter.api.Test;

/** Early ends and limits: rules 1, 2, 5, 6 and 8. */
public abstract class CancelContract extends EngineContract {
  private static final int MUCH = 32 << 20;

  @Test
  void rule5ACancelledReadLosesNothing() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      ByteBuffer room = ByteBuffer.allocate(10);
      long read = channel.read(room);
      assertTrue(channel.cancel(read));
      Completion cancelled = recorder.nextFailed(What.READ, OperationCancelledException.class);
      assertEquals(read, cancelled.activation());
      // Rule 2: the buffer is the test's again.
      connection.peer().getOutputStream().write(bytes("kept"));
      channel.read(ByteBuffer.allocate(10));
      assertEquals("kept", recorder.nextGood(What.READ).text());
      assertEquals(ByteBuffer.allocate(10), room.clear());
    }
  }

  @Test
  void rule2ABufferThatIsChangedMeanwhileFailsItsReadOnly() throws Exception {
    for (ByteBuffer room : List.of(ByteBuffer.allocate(10), ByteBuffer.allocateDirect(10))) {
      Recorder recorder = new Recorder();
      try (Connection connection = connected(recorder)) {
        AsynchChannel channel = connection.channel();
        channel.read(room);
        // Twice, so that the engine has the read.
        onLane(channel, () -> {});
        onLane(channel, () -> room.limit(0));
        connection.peer().getOutputStream().write('a');
        assertTrue(recorder.next(What.READ).error() instanceof RuntimeException);
        connection.peer().getOutputStream().write('a');
        channel.read(ByteBuffer.allocate(10));
        assertTrue(recorder.nextGood(What.READ).text().startsWith("a"));
      }
    }
  }

  @Test
  void rule5CancelNamesAnActivation() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      long first = channel.read(ByteBuffer.allocate(1));
      connection.peer().getOutputStream().write('a');
      recorder.nextGood(What.READ);
      long second = channel.read(ByteBuffer.allocate(1));
      onLane(channel, () -> assertFalse(channel.cancel(first)));
      channel.cancel(first);
      connection.peer().getOutputStream().write('b');
      Completion read = recorder.nextGood(What.READ);
      assertEquals(second, read.activation());
      assertFalse(channel.cancel(second), "nothing is pending");
    }
  }

  @Test
  void rule5ACancelOfAnotherNumberEndsNothing() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      List<Long> pending = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        pending.add(channel.startTimer(Patience.PATIENCE));
      }
      long last = pending.get(pending.size() - 1);
      onLane(
          channel,
          () -> {
            // Numbers of the same low bits come to the same places now and then.
            for (long number = last + 1; number < last + (1 << 20); number++) {
              assertFalse(channel.cancel(number), "a number that was not given out");
            }
            for (long i = 1; i < 10_000; i++) {
              assertFalse(channel.cancel(last + (i << 32)), "a number that was not given out");
            }
            assertEquals(0, recorder.waiting());
          });
      for (long number : pending) {
        channel.cancel(number);
        assertEquals(
            number,
            recorder.nextFailed(What.TIMEOUT, OperationCancelledException.class).activation());
      }
    }
  }

  @Test
  void rule5AQueuedOperationCanBeCancelled() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      long first = channel.read(ByteBuffer.allocate(1));
      long second = channel.read(ByteBuffer.allocate(1));
      channel.cancel(second);
      Completion cancelled = recorder.nextFailed(What.READ, OperationCancelledException.class);
      assertEquals(second, cancelled.activation());
      connection.peer().getOutputStream().write('a');
      assertEquals(first, recorder.nextGood(What.READ).activation());
    }
  }

  @Test
  void rule5QueuedOperationsCanBeCancelledInAnyOrder() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      List<Long> kept = new ArrayList<>();
      List<Long> cancelled = new ArrayList<>();
      for (int i = 0; i < 200; i++) {
        long number = channel.read(ByteBuffer.allocate(1));
        (i % 3 == 0 ? kept : cancelled).add(number);
      }
      Collections.shuffle(cancelled, new Random(1));
      for (long number : cancelled) {
        assertTrue(channel.cancel(number));
        assertEquals(
            number, recorder.nextFailed(What.READ, OperationCancelledException.class).activation());
      }
      onLane(channel, () -> cancelled.forEach(number -> assertFalse(channel.cancel(number))));
      connection.peer().getOutputStream().write(new byte[kept.size()]);
      for (long number : kept) {
        assertEquals(number, recorder.nextGood(What.READ).activation());
      }
    }
  }

  @Test
  void rule5AReadThatIsCancelledInTheQueueShowsNoBytes() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      // The library uses the objects of completed operations again.
      for (int i = 0; i < 2; i++) {
        channel.read(ByteBuffer.allocate(10).position(5).limit(6));
      }
      connection.peer().getOutputStream().write(bytes("ab"));
      recorder.nextGood(What.READ);
      recorder.nextGood(What.READ);
      onLane(channel, () -> {});
      channel.read(ByteBuffer.allocate(1));
      for (int begin : new int[] {0, 8}) {
        channel.cancel(channel.read(ByteBuffer.allocate(10).position(begin)));
        Completion cancelled = recorder.nextFailed(What.READ, OperationCancelledException.class);
        assertEquals("", cancelled.text());
        assertEquals(begin, cancelled.buffer().position());
      }
    }
  }

  @Test
  void rule5ACancelledWriteTellsHowMuchWasMoved() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      long big = channel.write(ByteBuffer.allocate(MUCH));
      connection.peer().getInputStream().readNBytes(1000);
      channel.cancel(big);
      Completion cancelled = recorder.nextFailed(What.WRITE, OperationCancelledException.class);
      assertTrue(cancelled.bytes() >= 1000 && cancelled.bytes() < MUCH, () -> "" + cancelled);
      assertEquals(cancelled.bytes(), cancelled.buffer().position());
      channel.close();
      long rest = connection.peer().getInputStream().readAllBytes().length;
      assertEquals(cancelled.bytes(), 1000 + rest);
    }
  }

  /** The engine may have moved more by its end than at the request. */
  @Test
  void rule5TheErrorOfACancelledWriteTellsNoWrongNumber() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      onLane(
          channel,
          () -> {
            long number = channel.write(ByteBuffer.allocate(MUCH));
            assertTrue(channel.cancel(number));
          });
      Completion write = recorder.next(What.WRITE);
      assertInstanceOf(OperationCancelledException.class, write.error());
      assertEquals(write.bytes(), write.buffer().position());
      assertFalse(write.error().getMessage().matches(".*[0-9].*"), write.error().getMessage());
    }
  }

  @Test
  void rule5CancelRacesWithCompletion() throws Exception {
    Recorder recorder = new Recorder();
    int rounds = 2000;
    int came = 0;
    try (Connection connection = connected(recorder)) {
      CyclicBarrier together = new CyclicBarrier(2);
      Thread writer =
          new Thread(
              () -> {
                try {
                  for (int i = 0; i < rounds; i++) {
                    together.await();
                    connection.peer().getOutputStream().write('x');
                  }
                } catch (Exception e) {
                  throw new AssertionError(e);
                }
              });
      writer.start();
      for (int i = 0; i < rounds; i++) {
        long number = connection.channel().read(ByteBuffer.allocate(rounds));
        together.await();
        connection.channel().cancel(number);
        Completion read = recorder.next(What.READ);
        assertEquals(number, read.activation());
        came += (int) read.bytes();
        assertTrue(
            read.error() == null && read.bytes() > 0
                || read.error() instanceof OperationCancelledException && read.bytes() == 0,
            read::toString);
      }
      Patience.await(writer);
      connection.peer().shutdownOutput();
      long last;
      do {
        connection.channel().read(ByteBuffer.allocate(rounds));
        last = recorder.nextGood(What.READ).bytes();
        came += (int) last;
      } while (last > 0);
    }
    assertEquals(rounds, came);
  }

  @Test
  void rule5AnAcceptCanBeCancelled() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = demultiplexor.listen(loopback(), recorder);
    long number = listener.accept();
    listener.cancel(number);
    recorder.nextFailed(What.ACCEPT, OperationCancelledException.class);
    listener.accept();
    plainClient(listener).close();
    recorder.nextGood(What.ACCEPT);
  }

  @Test
  void rule6CloseEndsWhatIsPendingAndComesLast() throws Exception {
    Recorder recorder = new Recorder();
    Connection connection = connected(recorder);
    AsynchChannel channel = connection.channel();
    channel.read(ByteBuffer.allocate(1));
    channel.read(ByteBuffer.allocate(1));
    channel.startTimer(Patience.PATIENCE);
    channel.write(ByteBuffer.allocate(MUCH));
    channel.close();
    channel.close();
    assertThrows(ChannelClosedException.class, () -> channel.read(ByteBuffer.allocate(1)));
    assertFalse(channel.isOpen());
    int ended = 0;
    Completion last;
    for (last = recorder.nextAny(); last.what() != What.CLOSED; last = recorder.nextAny()) {
      assertTrue(last.error() instanceof AsynchronousCloseException, last::toString);
      ended++;
    }
    assertEquals(4, ended);
    assertEquals(CloseReason.REQUESTED, last.reason());
    assertEquals(0, recorder.waiting());
    // The peer sees the end, or a reset where data was on the way.
    try {
      connection.peer().getInputStream().readAllBytes();
    } catch (IOException e) {
      assertTrue(e.getMessage().contains("reset"), e::toString);
    }
    connection.peer().close();
  }

  @Test
  void rule5AcceptsThatTheLaneHasNotSeenCanBeCancelled() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = demultiplexor.listen(loopback(), recorder);
    for (boolean futures : new boolean[] {false, true}) {
      CountDownLatch mayGoOn = new CountDownLatch(1);
      listener.post(() -> Patience.await(mayGoOn, "the starts"));
      List<Long> numbers = new ArrayList<>();
      List<CompletableFuture<?>> accepts = new ArrayList<>();
      // More than the lane begins in one piece.
      for (int i = 0; i < 100; i++) {
        if (futures) {
          accepts.add(listener.futures().accept(new Recorder()));
        } else {
          numbers.add(listener.accept());
        }
      }
      numbers.forEach(number -> assertTrue(listener.cancel(number)));
      accepts.forEach(accept -> assertTrue(accept.cancel(false)));
      mayGoOn.countDown();
      for (int i = 0; i < numbers.size(); i++) {
        recorder.nextFailed(What.ACCEPT, OperationCancelledException.class);
      }
      for (CompletableFuture<?> accept : accepts) {
        assertInstanceOf(
            OperationCancelledException.class, Patience.awaitFailure(accept, "a cancelled accept"));
      }
    }
  }

  @Test
  void rule6CloseRacesWithCompletion() throws Exception {
    for (int i = 0; i < 200; i++) {
      Recorder recorder = new Recorder();
      Connection connection = connected(recorder);
      AsynchChannel channel = connection.channel();
      int started = 0;
      for (int j = 0; j < 3; j++) {
        channel.read(ByteBuffer.allocate(1));
        channel.write(buffer("w"));
        started += 2;
      }
      Thread closer = new Thread(channel::close);
      closer.start();
      connection.peer().getOutputStream().write(bytes("abc"));
      try {
        while (true) {
          channel.write(buffer("w"));
          started++;
        }
      } catch (ChannelClosedException | LimitReachedException e) {
        channel.close();
      }
      for (int j = 0; j < started; j++) {
        Completion one = recorder.nextAny();
        assertTrue(one.what() == What.READ || one.what() == What.WRITE, one::toString);
      }
      recorder.next(What.CLOSED);
      assertEquals(0, recorder.waiting());
      Patience.await(closer);
      connection.peer().close();
    }
  }

  @Test
  void rule6AHandlerMayCloseItsChannel() throws Exception {
    Recorder recorder =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            super.onReadCompleted(opRead);
            AsynchChannel channel = opRead.getAsynchChannel();
            if (opRead.getError() == null) {
              channel.read(ByteBuffer.allocate(1));
              channel.close();
              assertThrows(ChannelClosedException.class, () -> channel.write(buffer("x")));
            }
          }
        };
    try (Connection connection = connected(recorder)) {
      connection.channel().read(ByteBuffer.allocate(1));
      connection.peer().getOutputStream().write('a');
      recorder.nextGood(What.READ);
      recorder.nextFailed(What.READ, AsynchronousCloseException.class);
      assertEquals(CloseReason.REQUESTED, recorder.next(What.CLOSED).reason());
      assertEquals(-1, connection.peer().getInputStream().read());
    }
  }

  @Test
  void rule8PendingOperationsAreBounded() throws Exception {
    try (var small = builder().operationsMax(4).open()) {
      Recorder recorder = new Recorder();
      try (Connection connection = connected(small, recorder)) {
        for (int i = 0; i < 4; i++) {
          connection.channel().read(ByteBuffer.allocate(1));
        }
        var refused =
            assertThrows(
                LimitReachedException.class,
                () -> connection.channel().read(ByteBuffer.allocate(1)));
        assertTrue(refused.getMessage().contains("operations_max"), refused::getMessage);
        connection.peer().getOutputStream().write('a');
        recorder.nextGood(What.READ);
        connection.channel().read(ByteBuffer.allocate(1));
      }
    }
  }

  @Test
  void rule8QueuedBytesAreBoundedAndNothingIsLost() throws Exception {
    try (var small = builder().writeBytesMax(1000).open()) {
      Recorder recorder = new Recorder();
      try (Connection connection = connected(small, recorder)) {
        AsynchChannel channel = connection.channel();
        // On the lane, so that none is complete before the last start.
        onLane(
            channel,
            () -> {
              channel.write(ByteBuffer.allocate(600));
              channel.write(ByteBuffer.allocate(400));
              assertThrows(LimitReachedException.class, () -> channel.write(buffer("x")));
            });
        recorder.nextGood(What.WRITE);
        recorder.nextGood(What.WRITE);
        assertEquals(1000, connection.peer().getInputStream().readNBytes(1000).length);
        // Alone it may be larger than the bound.
        channel.write(ByteBuffer.allocate(MUCH));
        assertEquals(MUCH, channel.getQueuedBytes());
        var refused =
            assertThrows(LimitReachedException.class, () -> channel.write(buffer("more")));
        assertTrue(refused.getMessage().contains("write_bytes_max"), refused::getMessage);
        assertEquals(MUCH, connection.peer().getInputStream().readNBytes(MUCH).length);
        recorder.nextGood(What.WRITE);
        channel.write(buffer("more"));
        assertEquals("more", new String(connection.peer().getInputStream().readNBytes(4)));
        recorder.nextGood(What.WRITE);
        assertEquals(0, channel.getQueuedBytes());
      }
    }
  }
}
