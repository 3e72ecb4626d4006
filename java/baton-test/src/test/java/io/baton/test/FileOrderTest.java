package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.Demultiplexor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** The order of a file's operations, on a file whose writes last as long as the test likes. */
class FileOrderTest {

  private static final class SlowFile extends FakeFile {
    final CountDownLatch writing = new CountDownLatch(1);
    final CountDownLatch goOn = new CountDownLatch(1);
    final AtomicInteger syncs = new AtomicInteger();

    @Override
    public int write(ByteBuffer from, long position) {
      writing.countDown();
      Patience.await(goOn, "the test");
      int moved = from.remaining();
      from.position(from.limit());
      return moved;
    }

    @Override
    public int read(ByteBuffer to, long position) {
      to.put((byte) 'x');
      return 1;
    }

    @Override
    public void force(boolean metadata) {
      syncs.incrementAndGet();
    }
  }

  @Test
  void aSyncWaitsForTheWritesAtPositionsThatWereStartedBefore() throws IOException {
    SlowFile slow = new SlowFile();
    try (Demultiplexor demultiplexor =
        Demultiplexor.builder().engine("nio").threads(1).fileThreads(2).open()) {
      AsynchFutures file = new AsynchChannel(demultiplexor, new Recorder(), slow).futures();
      CompletableFuture<Integer> write = file.write(ByteBuffer.allocate(3), 0);
      Patience.await(slow.writing, "the write");
      CompletableFuture<Void> sync = file.sync();
      // The other worker would have done the sync before this.
      Patience.await(file.read(ByteBuffer.allocate(1), 0), "a read");
      assertEquals(0, slow.syncs.get());
      slow.goOn.countDown();
      assertEquals(3, Patience.await(write, "the write"));
      Patience.await(sync, "the sync");
      assertEquals(1, slow.syncs.get());
    }
  }
}
