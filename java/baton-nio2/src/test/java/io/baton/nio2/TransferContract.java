package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.test.Patience;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.CompletionHandler;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.ReadPendingException;
import java.nio.channels.WritePendingException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;

/** Reading and writing. */
abstract class TransferContract extends Nio2Contract {

  TransferContract(Maker maker) {
    super(maker);
  }

  @Test
  void bytesArriveAsTheyWereWritten() throws IOException {
    Pair pair = pair(null);
    byte[] data = pattern(1_000_000);
    for (IntFunction<ByteBuffer> kind :
        List.<IntFunction<ByteBuffer>>of(ByteBuffer::allocate, ByteBuffer::allocateDirect)) {
      ByteBuffer source = kind.apply(data.length).put(data).flip();
      CompletableFuture<Void> written =
          CompletableFuture.runAsync(() -> writeAll(pair.near(), source));
      ByteBuffer target = kind.apply(data.length);
      while (target.hasRemaining()) {
        get(pair.far().read(target));
      }
      Patience.await(written, "the write");
      byte[] arrived = new byte[data.length];
      target.flip().get(arrived);
      assertArrayEquals(data, arrived);
    }
  }

  @Test
  void aReadMovesThePositionAndLeavesTheRest() throws IOException {
    Pair pair = pair(null);
    writeAll(pair.near(), ByteBuffer.wrap(new byte[] {1, 2, 3}));
    ByteBuffer target = ByteBuffer.allocate(10).position(4).limit(6);
    Completion<Integer> read = new Completion<>();
    pair.far().read(target, "attached", read);
    assertEquals(2, read.await("read"));
    assertEquals("attached", read.attachment);
    assertEquals(6, target.position());
    assertEquals(6, target.limit());
    assertArrayEquals(new byte[] {0, 0, 0, 0, 1, 2, 0, 0, 0, 0}, target.array());
    ByteBuffer rest = ByteBuffer.allocate(10).position(1);
    assertEquals(1, get(pair.far().read(rest)));
    assertEquals(2, rest.position());
    assertEquals(10, rest.limit());
    assertEquals(3, rest.get(1));
  }

  @Test
  void aWriteMovesThePositionAndLeavesTheRest() throws IOException {
    Pair pair = pair(null);
    ByteBuffer source = ByteBuffer.wrap(pattern(10)).position(2).limit(5).asReadOnlyBuffer();
    Completion<Integer> write = new Completion<>();
    pair.near().write(source, 10, TimeUnit.MINUTES, null, write);
    assertEquals(3, write.await("write"));
    assertEquals(5, source.position());
    assertEquals(5, source.limit());
    assertArrayEquals(Arrays.copyOfRange(pattern(10), 2, 5), readExactly(pair.far(), 3));
  }

  @Test
  void aLargeWriteWithATimeOutArrives() throws IOException {
    Pair pair = pair(null);
    byte[] data = pattern(3_000_000);
    ByteBuffer source = ByteBuffer.wrap(data);
    CompletableFuture<Void> done = new CompletableFuture<>();
    pair.near()
        .write(
            source,
            10,
            TimeUnit.MINUTES,
            null,
            new CompletionHandler<Integer, Void>() {
              @Override
              public void completed(Integer bytes, Void nothing) {
                if (source.hasRemaining()) {
                  pair.near().write(source, 10, TimeUnit.MINUTES, null, this);
                } else {
                  done.complete(null);
                }
              }

              @Override
              public void failed(Throwable error, Void nothing) {
                done.completeExceptionally(error);
              }
            });
    assertArrayEquals(data, readExactly(pair.far(), data.length));
    Patience.await(done, "the writes");
  }

  @Test
  void theEndOfTheStreamIsMinusOne() throws IOException {
    Pair pair = pair(null);
    writeAll(pair.near(), ByteBuffer.wrap(new byte[] {7}));
    assertSame(pair.near(), pair.near().shutdownOutput());
    pair.near().shutdownOutput();
    ByteBuffer target = ByteBuffer.allocate(10);
    assertEquals(1, get(pair.far().read(target)));
    assertEquals(-1, get(pair.far().read(target)));
    assertEquals(1, target.position());
    assertEquals(10, target.limit());
    Completion<Long> scattered = new Completion<>();
    pair.far()
        .read(
            new ByteBuffer[] {target, target.duplicate()},
            0,
            2,
            0,
            TimeUnit.SECONDS,
            null,
            scattered);
    assertEquals(-1L, scattered.await("read"));
    Completion<Integer> write = new Completion<>();
    pair.near().write(ByteBuffer.allocate(1), null, write);
    assertInstanceOf(ClosedChannelException.class, write.awaitFailure("write"));
    assertInstanceOf(
        ClosedChannelException.class, failure(pair.near().write(ByteBuffer.allocate(1))));
    // The other direction continues.
    writeAll(pair.far(), ByteBuffer.wrap(new byte[] {8}));
    assertEquals(8, readExactly(pair.near(), 1)[0]);
  }

  @Test
  void afterShutdownInputThereIsNothingToRead() throws IOException {
    Pair pair = pair(null);
    Completion<Integer> pending = new Completion<>();
    pair.far().read(ByteBuffer.allocate(1), null, pending);
    assertSame(pair.far(), pair.far().shutdownInput());
    pair.far().shutdownInput();
    assertEquals(-1, pending.await("the pending read"));
    assertEquals(-1, get(pair.far().read(ByteBuffer.allocate(1))));
    assertEquals(-1, get(pair.far().read(ByteBuffer.allocate(0))));
  }

  @Test
  void unconnectedChannelsMoveNothing() throws IOException {
    AsynchronousSocketChannel channel = open(null);
    ByteBuffer buffer = ByteBuffer.allocate(1);
    Completion<Integer> unused = new Completion<>();
    assertThrows(NotYetConnectedException.class, () -> channel.read(buffer));
    assertThrows(NotYetConnectedException.class, () -> channel.read(buffer, null, unused));
    assertThrows(NotYetConnectedException.class, () -> channel.write(buffer));
    assertThrows(NotYetConnectedException.class, channel::shutdownInput);
    assertThrows(NotYetConnectedException.class, channel::shutdownOutput);
    assertTrue(!unused.result.isDone());
  }

  @Test
  void withoutRoomOrDataNothingMoves() throws IOException {
    Pair pair = pair(null);
    ByteBuffer none = ByteBuffer.allocate(0);
    assertEquals(0, get(pair.near().read(none)));
    assertEquals(0, get(pair.near().write(none)));
    Completion<Integer> read = new Completion<>();
    pair.near().read(none, "attached", read);
    assertEquals(0, read.await("read"));
    assertEquals("attached", read.attachment);
    Completion<Long> gathered = new Completion<>();
    pair.near().write(new ByteBuffer[] {none, none}, 0, 2, 0, TimeUnit.SECONDS, null, gathered);
    assertEquals(0L, gathered.await("write"));
    Completion<Long> empty = new Completion<>();
    pair.near().write(new ByteBuffer[0], 0, 0, 0, TimeUnit.SECONDS, null, empty);
    assertEquals(0L, empty.await("write"));
    Completion<Long> scattered = new Completion<>();
    pair.near().read(new ByteBuffer[] {none, none}, 0, 2, 0, TimeUnit.SECONDS, null, scattered);
    assertEquals(0L, scattered.await("read"));
  }

  @Test
  void oneReadIsPendingAtATime() throws IOException {
    Pair pair = pair(null);
    ByteBuffer target = ByteBuffer.allocate(1);
    Completion<Integer> read = new Completion<>();
    pair.near().read(target, null, read);
    assertThrows(ReadPendingException.class, () -> pair.near().read(ByteBuffer.allocate(1)));
    assertThrows(ReadPendingException.class, () -> pair.near().read(ByteBuffer.allocate(0)));
    assertThrows(
        ReadPendingException.class,
        () ->
            pair.near()
                .read(
                    new ByteBuffer[] {ByteBuffer.allocate(1)},
                    0,
                    1,
                    0,
                    TimeUnit.SECONDS,
                    null,
                    new Completion<Long>()));
    // Writing is another direction.
    writeAll(pair.near(), ByteBuffer.wrap(new byte[] {1}));
    writeAll(pair.far(), ByteBuffer.wrap(new byte[] {2}));
    assertEquals(1, read.await("read"));
    assertEquals(2, target.get(0));
  }

  @Test
  void oneWriteIsPendingAtATime() throws IOException {
    Pair pair = pair(null);
    // The peer does not read, so the socket fills up, and a write stays pending.
    assertThrows(
        WritePendingException.class,
        () -> {
          while (true) {
            pair.near().write(ByteBuffer.allocate(1 << 20), null, new Completion<Integer>());
          }
        });
  }

  @Test
  void badBuffersAreRefusedAtOnce() throws IOException {
    AsynchronousSocketChannel near = pair(null).near();
    Completion<Integer> one = new Completion<>();
    Completion<Long> many = new Completion<>();
    ByteBuffer good = ByteBuffer.allocate(1);
    ByteBuffer readOnly = good.asReadOnlyBuffer();
    ByteBuffer[] mixed = {good, readOnly};
    TimeUnit unit = TimeUnit.SECONDS;
    assertThrows(IllegalArgumentException.class, () -> near.read(readOnly));
    assertThrows(IllegalArgumentException.class, () -> near.read(readOnly, null, one));
    assertThrows(IllegalArgumentException.class, () -> near.read(mixed, 0, 2, 0, unit, null, many));
    assertThrows(
        IndexOutOfBoundsException.class, () -> near.read(mixed, 1, 2, 0, unit, null, many));
    assertThrows(
        IndexOutOfBoundsException.class, () -> near.write(mixed, -1, 1, 0, unit, null, many));
    assertThrows(
        IndexOutOfBoundsException.class, () -> near.write(mixed, 0, -1, 0, unit, null, many));
    assertThrows(NullPointerException.class, () -> near.read(good, null, null));
    assertThrows(NullPointerException.class, () -> near.write(good, null, null));
    assertThrows(NullPointerException.class, () -> near.write(mixed, 0, 1, 0, unit, null, null));
    assertThrows(NullPointerException.class, () -> near.read((ByteBuffer) null, null, one));
    assertThrows(NullPointerException.class, () -> near.write((ByteBuffer) null));
    // Nothing was started.
    assertTrue(!one.result.isDone() && !many.result.isDone());
    assertEquals(1, get(near.write(good)));
  }

  @Test
  void severalBuffersAreOneStream() throws IOException {
    Pair pair = pair(null);
    byte[] data = pattern(300_000);
    byte[] arrived = new byte[data.length];
    ByteBuffer[] sources = split(data, 0, 3, 0, 5_000, 100_000, 194_997);
    ByteBuffer[] targets = split(arrived, 1, 0, 9, 70_000, 200_000, 29_990);
    CompletableFuture<Void> written = new CompletableFuture<>();
    moveAll(written, sources, (part, handler) -> gather(pair.near(), part, handler));
    CompletableFuture<Void> read = new CompletableFuture<>();
    moveAll(read, targets, (part, handler) -> scatter(pair.far(), part, handler));
    Patience.await(written, "the writes");
    Patience.await(read, "the reads");
    assertArrayEquals(data, arrived);
  }

  @Test
  void anArrayIsUsedFromItsOffset() throws IOException {
    Pair pair = pair(null);
    ByteBuffer[] sources = split(pattern(6), 1, 2, 3);
    Completion<Long> write = new Completion<>();
    pair.near().write(sources, 1, 1, 1, TimeUnit.MINUTES, "attached", write);
    assertEquals(2, write.await("write"));
    assertEquals("attached", write.attachment);
    assertEquals(0, sources[0].position());
    assertEquals(3, sources[1].position());
    assertEquals(3, sources[2].position());
    ByteBuffer[] targets = split(new byte[6], 1, 2, 3);
    Completion<Long> read = new Completion<>();
    pair.far().read(targets, 1, 2, 1, TimeUnit.MINUTES, null, read);
    assertEquals(2, read.await("read"));
    assertEquals(0, targets[0].position());
    assertEquals(3, targets[1].position());
    assertEquals(3, targets[2].position());
    assertEquals(pattern(6)[2], targets[1].get(2));
  }

  /** Parts of one array, in order. */
  private static ByteBuffer[] split(byte[] data, int... lengths) {
    ByteBuffer[] parts = new ByteBuffer[lengths.length];
    int begin = 0;
    for (int i = 0; i < lengths.length; i++) {
      parts[i] = ByteBuffer.wrap(data, begin, lengths[i]);
      begin += lengths[i];
    }
    return parts;
  }

  private interface Mover {
    void start(ByteBuffer[] buffers, CompletionHandler<Long, Void> handler);
  }

  private static void gather(
      AsynchronousSocketChannel channel,
      ByteBuffer[] buffers,
      CompletionHandler<Long, Void> handler) {
    channel.write(buffers, 0, buffers.length, 0, TimeUnit.SECONDS, null, handler);
  }

  private static void scatter(
      AsynchronousSocketChannel channel,
      ByteBuffer[] buffers,
      CompletionHandler<Long, Void> handler) {
    channel.read(buffers, 0, buffers.length, 0, TimeUnit.SECONDS, null, handler);
  }

  private static void moveAll(CompletableFuture<Void> done, ByteBuffer[] buffers, Mover mover) {
    mover.start(
        buffers,
        new CompletionHandler<Long, Void>() {
          private long before = left();

          private long left() {
            return Arrays.stream(buffers).mapToLong(ByteBuffer::remaining).sum();
          }

          @Override
          public void completed(Long bytes, Void nothing) {
            if (bytes <= 0 || before - left() != bytes) {
              failed(new AssertionError(bytes + " bytes, positions moved by " + before), null);
              return;
            }
            before = left();
            if (before > 0) {
              mover.start(buffers, this);
            } else {
              done.complete(null);
            }
          }

          @Override
          public void failed(Throwable error, Void nothing) {
            done.completeExceptionally(error);
          }
        });
  }

  @Test
  void manyConnectionsEchoInAGroupOfOne() throws IOException {
    echoOnMany(fixed(1));
  }

  @Test
  void manyConnectionsEchoInAGroupOfThree() throws IOException {
    echoOnMany(fixed(3));
  }

  @Test
  void manyConnectionsEchoInTheDefaultGroup() throws IOException {
    echoOnMany(null);
  }

  private void echoOnMany(AsynchronousChannelGroup group) throws IOException {
    List<CompletableFuture<byte[]>> echoes = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      Pair pair = pair(group);
      new Echo(pair.far()).read();
      byte[] data = pattern(40_000 + i);
      CompletableFuture<byte[]> echo = new CompletableFuture<>();
      new Client(pair.near(), data, echo).begin();
      echoes.add(echo);
    }
    for (int i = 0; i < echoes.size(); i++) {
      assertArrayEquals(pattern(40_000 + i), Patience.await(echoes.get(i), "echo " + i));
    }
  }
}
