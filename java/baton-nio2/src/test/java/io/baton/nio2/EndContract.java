package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.test.Patience;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.CompletionHandler;
import java.nio.channels.InterruptedByTimeoutException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Early ends: time-outs, cancel, close. */
abstract class EndContract extends Nio2Contract {

  EndContract(Maker maker) {
    super(maker);
  }

  @Test
  void aReadTimesOutAndLeavesItsBufferAlone() throws IOException {
    Pair pair = pair(null);
    ByteBuffer target = ByteBuffer.allocate(10).position(2).limit(7);
    Completion<Integer> read = new Completion<>();
    pair.near().read(target, 1, TimeUnit.MILLISECONDS, "attached", read);
    assertInstanceOf(InterruptedByTimeoutException.class, read.awaitFailure("read"));
    assertEquals("attached", read.attachment);
    assertEquals(2, target.position());
    assertEquals(7, target.limit());
    // The operation has ended: later bytes do not go into the old buffer.
    writeAll(pair.far(), ByteBuffer.wrap(new byte[] {1, 2, 3}));
    assertThrows(IllegalStateException.class, () -> pair.near().read(ByteBuffer.allocate(1)));
    assertTrue(pair.near().isOpen());
    writeAll(pair.near(), ByteBuffer.wrap(new byte[] {9}));
    assertEquals(9, readExactly(pair.far(), 1)[0]);
    assertArrayEquals(new byte[10], target.array());
  }

  @Test
  void aScatteringReadTimesOut() throws IOException {
    Pair pair = pair(null);
    ByteBuffer[] targets = {ByteBuffer.allocate(1), ByteBuffer.allocate(2)};
    Completion<Long> read = new Completion<>();
    pair.near().read(targets, 0, 2, 1, TimeUnit.NANOSECONDS, null, read);
    assertInstanceOf(InterruptedByTimeoutException.class, read.awaitFailure("read"));
    assertEquals(0, targets[0].position());
  }

  @Test
  void aReadInTimeDoesNotTimeOut() throws IOException {
    Pair pair = pair(null);
    // What is not positive is none.
    for (long time : new long[] {10, Long.MAX_VALUE, 0, -1, Long.MIN_VALUE}) {
      Completion<Integer> read = new Completion<>();
      pair.near().read(ByteBuffer.allocate(1), time, TimeUnit.MINUTES, null, read);
      Completion<Integer> write = new Completion<>();
      pair.far().write(ByteBuffer.allocate(1), time, TimeUnit.MINUTES, null, write);
      assertEquals(1, write.await("write"));
      assertEquals(1, read.await("read"));
    }
  }

  @Test
  void aWriteTimesOut() throws IOException {
    Pair pair = pair(null);
    CompletableFuture<Throwable> ended = new CompletableFuture<>();
    ByteBuffer source = ByteBuffer.allocate(1 << 20);
    // The peer does not read, so the socket fills up.
    pair.near()
        .write(
            source,
            50,
            TimeUnit.MILLISECONDS,
            null,
            new CompletionHandler<Integer, Void>() {
              @Override
              public void completed(Integer bytes, Void nothing) {
                pair.near().write(source.clear(), 50, TimeUnit.MILLISECONDS, null, this);
              }

              @Override
              public void failed(Throwable error, Void nothing) {
                ended.complete(error);
              }
            });
    assertInstanceOf(InterruptedByTimeoutException.class, Patience.await(ended, "the time-out"));
    assertThrows(IllegalStateException.class, () -> pair.near().write(ByteBuffer.allocate(1)));
    assertTrue(pair.near().isOpen());
  }

  @Test
  void aCancelledReadEndsReading() throws Exception {
    Pair pair = pair(null);
    Future<Integer> read = pair.near().read(ByteBuffer.allocate(10));
    assertFalse(read.isDone());
    assertThrows(TimeoutException.class, () -> read.get(1, TimeUnit.MILLISECONDS));
    assertTrue(read.cancel(false));
    assertFalse(read.cancel(true));
    assertTrue(read.isCancelled() && read.isDone());
    assertThrows(CancellationException.class, read::get);
    assertThrows(CancellationException.class, () -> read.get(1, TimeUnit.SECONDS));
    assertThrows(IllegalStateException.class, () -> pair.near().read(ByteBuffer.allocate(1)));
    assertTrue(pair.near().isOpen());
    writeAll(pair.near(), ByteBuffer.wrap(new byte[] {9}));
    assertEquals(9, readExactly(pair.far(), 1)[0]);
  }

  @Test
  void aCancelThatInterruptsClosesTheChannel() throws IOException {
    Pair pair = pair(null);
    ByteBuffer room = ByteBuffer.allocate(10).position(2);
    Future<Integer> read = pair.near().read(room);
    assertTrue(read.cancel(true));
    assertFalse(pair.near().isOpen());
    assertEquals(ByteBuffer.allocate(8), room);
    assertTrue(read.isCancelled());
    assertEquals(-1, get(pair.far().read(ByteBuffer.allocate(1))));
  }

  @Test
  void aCancelComesTooLateForADoneOperation() throws IOException {
    Pair pair = pair(null);
    Future<Integer> write = pair.near().write(ByteBuffer.allocate(1));
    assertEquals(1, get(write));
    assertFalse(write.cancel(true));
    assertFalse(write.isCancelled());
    assertTrue(pair.near().isOpen());
  }

  @Test
  void aWaitingThreadIsToldOfTheCancel() throws Exception {
    Pair pair = pair(null);
    Future<Integer> read = pair.near().read(ByteBuffer.allocate(10));
    CountDownLatch waits = new CountDownLatch(1);
    AtomicBoolean told = new AtomicBoolean();
    Thread waiter =
        new Thread(
            () -> {
              waits.countDown();
              told.set(assertThrows(CancellationException.class, read::get) != null);
            });
    waiter.start();
    Patience.await(waits, "the thread");
    read.cancel(false);
    Patience.await(waiter);
    assertTrue(told.get());
  }

  @Test
  void closeEndsWhatIsPending() throws IOException {
    Pair pair = pair(null);
    Completion<Integer> read = new Completion<>();
    pair.near().read(ByteBuffer.allocate(1), "attached", read);
    pair.near().close();
    assertInstanceOf(AsynchronousCloseException.class, read.awaitFailure("read"));
    assertEquals("attached", read.attachment);
    Pair other = pair(null);
    Future<Integer> future = other.near().read(ByteBuffer.allocate(1));
    other.near().close();
    assertInstanceOf(AsynchronousCloseException.class, failure(future));
  }

  @Test
  void closeEndsAWriteThatIsPending() throws IOException {
    Pair pair = pair(null);
    CompletableFuture<Throwable> ended = new CompletableFuture<>();
    ByteBuffer source = ByteBuffer.allocate(1 << 20);
    CompletionHandler<Integer, Void> writer =
        new CompletionHandler<>() {
          @Override
          public void completed(Integer bytes, Void nothing) {
            pair.near().write(source.clear(), null, this);
          }

          @Override
          public void failed(Throwable error, Void nothing) {
            ended.complete(error);
          }
        };
    pair.near().write(source, null, writer);
    pair.near().close();
    // A write that begins after the close has the plain exception.
    assertInstanceOf(ClosedChannelException.class, Patience.await(ended, "the end"));
  }

  @Test
  void aClosedChannelRefusesByCompletion() throws IOException {
    AsynchronousSocketChannel channel = pair(null).near();
    channel.close();
    ByteBuffer buffer = ByteBuffer.allocate(1);
    ByteBuffer[] buffers = {buffer};
    Completion<Integer> read = new Completion<>();
    channel.read(buffer, "attached", read);
    assertInstanceOf(ClosedChannelException.class, read.awaitFailure("read"));
    assertEquals("attached", read.attachment);
    Completion<Integer> write = new Completion<>();
    channel.write(buffer, null, write);
    assertInstanceOf(ClosedChannelException.class, write.awaitFailure("write"));
    Completion<Long> gather = new Completion<>();
    channel.write(buffers, 0, 1, 0, TimeUnit.SECONDS, null, gather);
    assertInstanceOf(ClosedChannelException.class, gather.awaitFailure("write"));
    Completion<Long> scatter = new Completion<>();
    channel.read(buffers, 0, 1, 0, TimeUnit.SECONDS, null, scatter);
    assertInstanceOf(ClosedChannelException.class, scatter.awaitFailure("read"));
    assertInstanceOf(ClosedChannelException.class, failure(channel.read(buffer)));
    assertInstanceOf(ClosedChannelException.class, failure(channel.write(buffer)));
  }

  @Test
  void aHandlerMayCloseItsChannel() throws IOException {
    for (int threads = 1; threads <= 2; threads++) {
      Pair pair = pair(fixed(threads));
      CompletableFuture<Boolean> open = new CompletableFuture<>();
      Then<Integer> closer =
          bytes -> {
            pair.far().close();
            open.complete(pair.far().isOpen());
          };
      pair.far().read(ByteBuffer.allocate(1), null, closer);
      sendByte(pair.near());
      assertFalse(Patience.await(open, "the handler"));
      assertEquals(-1, get(pair.near().read(ByteBuffer.allocate(1))));
    }
  }

  @Test
  void closeFromOutsideDoesNotWaitForAHandler() throws IOException {
    Pair pair = pair(fixed(1));
    CountDownLatch entered = new CountDownLatch(1);
    CountDownLatch leave = new CountDownLatch(1);
    CompletableFuture<Void> left = new CompletableFuture<>();
    Then<Integer> waiter =
        bytes -> {
          entered.countDown();
          Patience.await(leave, "the close");
          left.complete(null);
        };
    pair.far().read(ByteBuffer.allocate(1), null, waiter);
    sendByte(pair.near());
    Patience.await(entered, "the handler");
    pair.near().close();
    pair.far().close();
    leave.countDown();
    Patience.await(left, "the end of the handler");
  }
}
