package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.Demultiplexor;
import io.baton.OperationCancelledException;
import io.baton.OperationTimedOutException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A file whose descriptor is in non-blocking mode, as an inherited standard input may be. */
class NonBlockingFileTest {

  /** Both ends of a pipe. */
  private static final class PipeFile extends FakeFile {
    final Pipe pipe = Pipe.open();
    volatile CountDownLatch tries;

    PipeFile() throws IOException {
      pipe.source().configureBlocking(false);
      pipe.sink().configureBlocking(false);
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
      int moved = pipe.source().read(to);
      tries.countDown();
      return moved;
    }

    @Override
    public int write(ByteBuffer from) throws IOException {
      int moved = pipe.sink().write(from);
      tries.countDown();
      return moved;
    }

    @Override
    protected void implCloseChannel() throws IOException {
      pipe.source().close();
      pipe.sink().close();
    }
  }

  private PipeFile pipe;
  private Demultiplexor demultiplexor;
  private AsynchFutures file;
  private AsynchChannel channel;

  @BeforeEach
  void open() throws IOException {
    demultiplexor = Demultiplexor.builder().engine("nio").threads(1).open();
    pipe = new PipeFile();
    channel = new AsynchChannel(demultiplexor, new Recorder(), pipe);
    file = channel.futures();
  }

  @AfterEach
  void close() {
    demultiplexor.close();
  }

  @Test
  void aReadWaitsForData() throws IOException {
    pipe.tries = new CountDownLatch(1);
    ByteBuffer buffer = ByteBuffer.allocate(9);
    CompletableFuture<Integer> read = file.read(buffer);
    Patience.await(pipe.tries, "a try");
    pipe.pipe.sink().write(ByteBuffer.wrap(new byte[] {1, 2, 3}));
    assertEquals(3, Patience.await(read, "the read"), "there was no end of the file");
    pipe.pipe.sink().close();
    assertEquals(0, Patience.await(file.read(buffer.clear()), "the end"));
  }

  @Test
  void aReadThatWaitsCanBeCancelledAndBeLate() {
    pipe.tries = new CountDownLatch(1);
    CompletableFuture<Integer> read = file.read(ByteBuffer.allocate(9));
    Patience.await(pipe.tries, "a try");
    read.cancel(false);
    assertInstanceOf(
        OperationCancelledException.class, Patience.awaitFailure(read, "the cancelled read"));
    assertInstanceOf(
        OperationTimedOutException.class,
        Patience.awaitFailure(
            file.read(ByteBuffer.allocate(9), Duration.ofMillis(1)), "the late read"));
  }

  @Test
  void aWriteWaitsForRoom() throws IOException {
    // More than a pipe has room for.
    ByteBuffer much = ByteBuffer.allocate(2 << 20);
    pipe.tries = new CountDownLatch(100);
    CompletableFuture<Integer> write = file.write(much);
    ByteBuffer taken = ByteBuffer.allocate(much.capacity());
    Patience.await(pipe.tries, "tries that find no room");
    while (taken.hasRemaining()) {
      pipe.pipe.source().read(taken);
    }
    assertEquals(much.capacity(), Patience.await(write, "the write"));
  }

  /** More files that wait than workers. */
  @Test
  void filesThatWaitLeaveTheWorkersToOthers() throws IOException {
    try (Demultiplexor narrow =
        Demultiplexor.builder().engine("nio").threads(1).fileThreads(1).open()) {
      pipe.tries = new CountDownLatch(1);
      var waiting = new AsynchChannel(narrow, new Recorder(), pipe).futures();
      CompletableFuture<Integer> read = waiting.read(ByteBuffer.allocate(9));
      Patience.await(pipe.tries, "a try");
      try (PipeFile second = new PipeFile()) {
        second.tries = new CountDownLatch(1);
        var other = new AsynchChannel(narrow, new Recorder(), second).futures();
        assertInstanceOf(
            OperationTimedOutException.class,
            Patience.awaitFailure(
                other.read(ByteBuffer.allocate(9), Duration.ofMillis(1)), "the late read"));
        second.pipe.sink().write(ByteBuffer.wrap(new byte[] {1, 2, 3}));
        assertEquals(3, Patience.await(other.read(ByteBuffer.allocate(9)), "the other read"));
        Patience.await(other.close(), "the close");
      }
      pipe.pipe.sink().write(ByteBuffer.wrap(new byte[] {1}));
      assertEquals(1, Patience.await(read, "the first read"));
    }
  }
}
