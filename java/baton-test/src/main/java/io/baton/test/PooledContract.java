package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.ChannelClosedException;
import io.baton.Demultiplexor;
import io.baton.OpRead;
import io.baton.OperationCancelledException;
import io.baton.PooledBuffer;
import io.baton.test.Completion.What;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.Test;

/** Reads whose buffer comes from a pool when data is there. */
public abstract class PooledContract extends EngineContract {
  /** More than one stack has room for, and fewer than the usual limit of descriptors. */
  private static final int MANY = 2_500;

  /** Keeps the block of every read. */
  private static final class Keeper extends Recorder {
    final BlockingQueue<PooledBuffer> kept = new LinkedBlockingQueue<>();

    @Override
    public void onReadCompleted(OpRead opRead) throws Exception {
      boolean pooled = opRead.getBuffer() != null && opRead.getBuffer().isDirect();
      if (pooled && opRead.getBytesCompleted() > 0) {
        kept.add(opRead.takePooled());
        assertThrows(IllegalStateException.class, opRead::takePooled);
      }
      super.onReadCompleted(opRead);
    }
  }

  @Test
  void anIdleReadHoldsNoBlock() throws Exception {
    Recorder recorder = new Recorder();
    List<Connection> connections = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      connections.add(connected(recorder));
      connections.get(i).channel().readPooled();
    }
    for (Connection connection : connections) {
      onLane(connection.channel(), () -> {});
    }
    // A lane that tries a read borrows one block, and gives it back.
    assertTrue(demultiplexor.getPooledBuffers() <= 2);
    for (Connection connection : connections) {
      connection.peer().getOutputStream().write(bytes("data"));
      assertEquals("data", recorder.nextGood(What.READ).text());
    }
    // One read at a time had data. Each lane needs one block for it and may try one more.
    assertTrue(demultiplexor.getPooledBuffers() <= 4);
    for (Connection connection : connections) {
      connection.close();
    }
  }

  @Test
  void theEndOfTheStreamNeedsNoBlock() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.channel().readPooled();
      connection.peer().shutdownOutput();
      Completion end = recorder.nextGood(What.READ);
      assertEquals(0, end.bytes());
      assertNull(end.buffer());
    }
  }

  @Test
  void aBlockCanBeKeptWrittenAndGivenBackOnce() throws Exception {
    Keeper keeper = new Keeper();
    try (Connection connection = connected(keeper)) {
      for (int i = 0; i < 10; i++) {
        connection.channel().readPooled();
        connection.peer().getOutputStream().write(bytes("echo"));
        keeper.nextGood(What.READ);
        PooledBuffer block = keeper.kept.take();
        connection.channel().write(block);
        assertNull(keeper.nextGood(What.WRITE).buffer());
        assertEquals("echo", new String(connection.peer().getInputStream().readNBytes(4)));
        assertThrows(IllegalStateException.class, block::close);
        assertThrows(IllegalStateException.class, block::getBuffer);
      }
      assertEquals(1, demultiplexor.getPooledBuffers());
    }
  }

  @Test
  void ofTwoThreadsThatGiveABlockBackOneIsRefused() throws Exception {
    Keeper keeper = new Keeper();
    try (Connection connection = connected(keeper)) {
      CyclicBarrier together = new CyclicBarrier(2);
      for (int i = 0; i < 300; i++) {
        connection.channel().readPooled();
        connection.peer().getOutputStream().write('a');
        keeper.nextGood(What.READ);
        PooledBuffer block = keeper.kept.take();
        Callable<Integer> closer =
            () -> {
              together.await();
              try {
                block.close();
                return 0;
              } catch (IllegalStateException e) {
                return 1;
              }
            };
        FutureTask<Integer> other = new FutureTask<>(closer);
        new Thread(other).start();
        assertEquals(1, closer.call() + other.get());
      }
      assertEquals(1, demultiplexor.getPooledBuffers());
    }
  }

  @Test
  void aBlockKeepsNothingOfItsLastReader() throws Exception {
    BlockingQueue<ByteOrder> orders = new LinkedBlockingQueue<>();
    Recorder recorder =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            if (opRead.getBuffer() != null) {
              orders.add(opRead.getBuffer().order());
              opRead.getBuffer().order(ByteOrder.LITTLE_ENDIAN);
            }
            super.onReadCompleted(opRead);
          }
        };
    try (Connection connection = connected(recorder)) {
      for (int i = 0; i < 2; i++) {
        connection.channel().readPooled();
        connection.peer().getOutputStream().write('a');
        recorder.nextGood(What.READ);
        assertEquals(ByteOrder.BIG_ENDIAN, orders.take());
      }
      assertEquals(1, demultiplexor.getPooledBuffers());
    }
  }

  @Test
  void anEmptyPoolMakesReadsWaitAndLosesNothing() throws Exception {
    try (Demultiplexor small =
        builder().threads(1).pooledBuffersMax(2).pooledBufferSize(64).open()) {
      Keeper keeper = new Keeper();
      List<Connection> connections = new ArrayList<>();
      long[] reads = new long[6];
      for (int i = 0; i < 6; i++) {
        connections.add(connected(small, keeper));
      }
      for (int i = 0; i < 6; i++) {
        reads[i] = connections.get(i).channel().readPooled();
        connections.get(i).peer().getOutputStream().write(bytes("data " + i));
      }
      List<String> texts = new ArrayList<>();
      texts.add(keeper.nextGood(What.READ).text());
      texts.add(keeper.nextGood(What.READ).text());
      assertEquals(2, small.getPooledBuffers());
      assertEquals(64, keeper.kept.element().getBuffer().capacity());
      // A read that waits for a block can be cancelled, and its data stays where it is.
      int without = 0;
      while (texts.contains("data " + without)) {
        without++;
      }
      AsynchChannel last = connections.get(without).channel();
      long lastRead = reads[without];
      onLane(last, () -> assertTrue(last.cancel(lastRead)));
      keeper.nextFailed(What.READ, OperationCancelledException.class);
      for (int i = 0; i < 3; i++) {
        keeper.kept.take().close();
        texts.add(keeper.nextGood(What.READ).text());
      }
      keeper.kept.take().close();
      keeper.kept.take().close();
      last.read(ByteBuffer.allocate(10));
      texts.add(keeper.nextGood(What.READ).text());
      assertEquals(
          List.of("data 0", "data 1", "data 2", "data 3", "data 4", "data 5"),
          texts.stream().sorted().toList());
      assertEquals(2, small.getPooledBuffers());
      for (Connection connection : connections) {
        connection.close();
      }
    }
  }

  @Test
  void aBlockThatIsBeingWrittenIsNotTheProgramsAnyMore() throws Exception {
    Keeper keeper = new Keeper();
    try (Connection connection = connected(keeper)) {
      AsynchChannel channel = connection.channel();
      channel.readPooled();
      connection.peer().getOutputStream().write('a');
      keeper.nextGood(What.READ);
      PooledBuffer block = keeper.kept.take();
      // On the lane, so that the write is not complete before.
      onLane(
          channel,
          () -> {
            channel.write(block);
            assertThrows(IllegalStateException.class, block::close);
            assertThrows(IllegalStateException.class, () -> channel.write(block));
            assertThrows(IllegalStateException.class, () -> channel.futures().write(block));
          });
      keeper.nextGood(What.WRITE);
      assertThrows(IllegalStateException.class, block::close);
      assertEquals(0, channel.getQueuedBytes());
      assertEquals('a', connection.peer().getInputStream().read());
      // A refused write leaves the block with the program.
      channel.readPooled();
      connection.peer().getOutputStream().write('b');
      keeper.nextGood(What.READ);
      PooledBuffer kept = keeper.kept.take();
      channel.close();
      assertThrows(ChannelClosedException.class, () -> channel.write(kept));
      kept.close();
      assertEquals(1, demultiplexor.getPooledBuffers());
      keeper.next(What.CLOSED);
    }
  }

  @Test
  void manyReadsThatWaitForOneBlockAreTriedInTurn() throws Exception {
    try (Demultiplexor small = builder().threads(1).pooledBuffersMax(1).open()) {
      Keeper keeper = new Keeper();
      AsynchChannel[] idle = new AsynchChannel[MANY];
      try (Connection connection = connected(small, keeper)) {
        AsynchChannel channel = connection.channel();
        channel.readPooled();
        connection.peer().getOutputStream().write('a');
        keeper.nextGood(What.READ);
        // A datagram channel needs one descriptor.
        Recorder recorder = new Recorder();
        for (int i = 0; i < MANY; i++) {
          idle[i] = small.datagram(loopback(), recorder);
          idle[i].readPooled();
        }
        onLane(channel, () -> {});
        channel.readPooled();
        connection.peer().getOutputStream().write('b');
        keeper.kept.take().close();
        assertEquals("b", keeper.nextGood(What.READ).text());
        keeper.kept.take().close();
        try (DatagramSocket peer = new DatagramSocket()) {
          for (AsynchChannel one : List.of(idle[0], idle[MANY - 1])) {
            peer.send(new DatagramPacket(bytes("x"), 1, address(one)));
            assertEquals("x", recorder.nextGood(What.READ).text());
          }
        }
      }
    }
  }
}
