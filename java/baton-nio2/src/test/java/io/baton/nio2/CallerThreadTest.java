package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.baton.test.Patience;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** In a group of several threads, what can be done at once needs no lane. */
class CallerThreadTest extends Nio2Contract {

  CallerThreadTest() {
    super(Maker.BATON);
  }

  private Socket plain(AsynchronousServerSocketChannel listener) throws IOException {
    InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
    Socket socket = closeLater(new Socket(address.getAddress(), address.getPort()));
    socket.setSoTimeout((int) Patience.PATIENCE.toMillis());
    return socket;
  }

  @Test
  void writesAndReadsThatNeedNotWait() throws Exception {
    AsynchronousChannelGroup group = fixed(2);
    AsynchronousServerSocketChannel listener = listen(group);
    Socket peer = plain(listener);
    AsynchronousSocketChannel channel = closeLater(get(listener.accept()));
    peer.getOutputStream().write(new byte[] {1, 2, 3, 4});
    CountDownLatch goOn = heldLanes(group);
    try {
      assertEquals(5, get(channel.write(ByteBuffer.allocate(5))));
      assertEquals(5, peer.getInputStream().readNBytes(5).length);
      // Each read fills its buffer, so that there may be more.
      List<Thread> threads = new ArrayList<>();
      CompletableFuture<Integer> third = new CompletableFuture<>();
      ByteBuffer one = ByteBuffer.allocate(1);
      Then<Integer> readThird =
          bytes -> {
            threads.add(Thread.currentThread());
            third.complete((int) one.get(0));
          };
      Then<Integer> readSecond =
          bytes -> {
            threads.add(Thread.currentThread());
            channel.read(one.clear(), null, readThird);
            assertEquals(2, threads.size(), "the handler inside");
          };
      assertEquals(2, get(channel.read(ByteBuffer.allocate(2))));
      channel.read(one, null, readSecond);
      assertEquals(4, Patience.await(third, "the last byte"));
      assertSame(threads.get(0), threads.get(1));
    } finally {
      goOn.countDown();
    }
  }

  @Test
  void aBrokenConnectionIsNoEndForTheNextRead() throws Exception {
    AsynchronousServerSocketChannel listener = listen(fixed(2));
    Socket peer = plain(listener);
    AsynchronousSocketChannel channel = closeLater(get(listener.accept()));
    peer.setSoLinger(true, 0);
    peer.close();
    Throwable why = null;
    while (why == null) {
      Completion<Integer> write = new Completion<>();
      channel.write(ByteBuffer.allocate(1), null, write);
      why = write.result.handle((bytes, error) -> error).get();
    }
    assertInstanceOf(IOException.class, why);
    Completion<Integer> read = new Completion<>();
    channel.read(ByteBuffer.allocate(1), null, read);
    assertInstanceOf(IOException.class, read.awaitFailure("the read"));
  }

  /** A group whose channels take one operation at a time. */
  private AsynchronousChannelGroup withoutPlaces() throws IOException {
    String words = System.getProperty("baton");
    System.setProperty("baton", (words == null ? "" : words + ",") + "operations_max=1");
    try {
      return fixed(2);
    } finally {
      if (words == null) {
        System.clearProperty("baton");
      } else {
        System.setProperty("baton", words);
      }
    }
  }

  @Test
  void aPartWhoseRestCannotBeStartedCounts() throws Exception {
    AsynchronousServerSocketChannel listener = listen(withoutPlaces());
    Socket peer = plain(listener);
    AsynchronousSocketChannel channel = closeLater(get(listener.accept()));
    channel.read(ByteBuffer.allocate(1), null, new Completion<Integer>());
    ByteBuffer source = ByteBuffer.allocateDirect(20 << 20);
    int written = get(channel.write(source));
    assertEquals(written, source.position());
    assertEquals(written, peer.getInputStream().readNBytes(written).length);
    assertEquals(0, peer.getInputStream().available());
  }

  @Test
  void aPartGoesAtOnceAndTheRestThroughTheLane() throws Exception {
    AsynchronousChannelGroup group = fixed(2);
    AsynchronousServerSocketChannel listener = listen(group);
    Socket peer = plain(listener);
    AsynchronousSocketChannel channel = closeLater(get(listener.accept()));
    channel.setOption(StandardSocketOptions.SO_SNDBUF, 10_000);
    ByteBuffer source = ByteBuffer.allocateDirect(1 << 20);
    Completion<Integer> write = new Completion<>();
    CountDownLatch goOn = heldLanes(group);
    channel.write(source, null, write);
    goOn.countDown();
    assertEquals(1 << 20, peer.getInputStream().readNBytes(1 << 20).length);
    assertEquals(1 << 20, write.await("the write"));
    assertEquals(0, source.remaining());
  }

  /** There its threads would wait for each other, as with the JDK. */
  @Test
  void startsDoNotWaitForRoomInAnExecutor() throws Exception {
    ExecutorService executor =
        new ThreadPoolExecutor(
            2,
            2,
            0,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(1),
            (work, pool) -> {
              try {
                pool.getQueue().put(work);
              } catch (InterruptedException e) {
                throw new RejectedExecutionException(e);
              }
            });
    AsynchronousChannelGroup group = endLater(provider.openAsynchronousChannelGroup(executor, 0));
    List<AsynchronousSocketChannel> channels = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      channels.add(pair(group).near());
    }
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch done = new CountDownLatch(channels.size());
    for (AsynchronousSocketChannel channel : channels) {
      ByteBuffer one = ByteBuffer.allocate(1);
      AtomicInteger left = new AtomicInteger(200);
      channel.write(
          one,
          null,
          new Then<Integer>() {
            @Override
            public void then(Integer bytes) {
              Patience.await(begun, "all starts, none of which waits for a handler");
              if (left.decrementAndGet() > 0) {
                channel.write(one.clear(), null, this);
              } else {
                done.countDown();
              }
            }
          });
    }
    begun.countDown();
    Patience.await(done, "the last writes");
  }
}
