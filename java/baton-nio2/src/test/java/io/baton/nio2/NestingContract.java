package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.test.Patience;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Operations that handlers start and that are done at once. */
abstract class NestingContract extends Nio2Contract {
  /** The JDK calls 16 inside the first. */
  private static final int DEEPEST = 17;

  NestingContract(Maker maker) {
    super(maker);
  }

  /** Writes one byte after the other, each from the handler of the one before. */
  private static final class Chain implements CompletionHandler<Integer, Object> {
    private final AsynchronousSocketChannel channel;
    private final ByteBuffer one = ByteBuffer.allocate(1);
    private final int bytes;
    private final AtomicInteger written = new AtomicInteger();
    private final ThreadLocal<Integer> depth = ThreadLocal.withInitial(() -> 0);
    private volatile int deepest;
    final CompletableFuture<Void> done = new CompletableFuture<>();

    Chain(AsynchronousSocketChannel channel, int bytes) {
      this.channel = channel;
      this.bytes = bytes;
    }

    void next() {
      one.clear().put(0, (byte) written.get());
      channel.write(one, null, this);
    }

    @Override
    public void completed(Integer count, Object attachment) {
      depth.set(depth.get() + 1);
      deepest = Math.max(deepest, depth.get());
      try {
        if (written.incrementAndGet() < bytes) {
          next();
        } else {
          done.complete(null);
        }
      } finally {
        depth.set(depth.get() - 1);
      }
    }

    @Override
    public void failed(Throwable error, Object attachment) {
      done.completeExceptionally(error);
    }
  }

  private void chain(AsynchronousChannelGroup group) throws IOException {
    Pair pair = pair(group);
    int bytes = 1_000;
    Chain chain = new Chain(pair.near(), bytes);
    chain.next();
    byte[] arrived = readExactly(pair.far(), bytes);
    for (int i = 0; i < bytes; i++) {
      assertEquals((byte) i, arrived[i]);
    }
    Patience.await(chain.done, "the last write");
    assertTrue(chain.deepest <= DEEPEST, () -> chain.deepest + " handlers inside each other");
  }

  @Test
  void handlersAreNestedToABound() throws IOException {
    chain(fixed(1));
    chain(fixed(3));
    chain(endLater(provider.openAsynchronousChannelGroup(Executors.newCachedThreadPool(), 1)));
    chain(null);
  }

  /** Long ones, so that a part is written at once and the rest later. */
  @Test
  void aWriteThatIsDoneInPartsKeepsCount() throws IOException {
    Pair pair = pair(fixed(3));
    byte[] data = pattern(8 << 20);
    ByteBuffer[] sources = {
      ByteBuffer.wrap(data, 0, 100_000),
      ByteBuffer.allocateDirect(200_000).put(data, 100_000, 200_000).flip(),
      ByteBuffer.wrap(data, 300_000, data.length - 300_000)
    };
    CompletableFuture<byte[]> arrived =
        CompletableFuture.supplyAsync(() -> readExactly(pair.far(), data.length));
    long sum = 0;
    while (sources[2].hasRemaining()) {
      Completion<Long> part = new Completion<>();
      pair.near().write(sources, 0, sources.length, 0, TimeUnit.SECONDS, null, part);
      sum += part.await("a part");
    }
    assertEquals(data.length, sum);
    assertArrayEquals(data, Patience.await(arrived, "the bytes"));
  }

  @Test
  void aWriteOfAFutureMayBeDoneInParts() throws Exception {
    Pair pair = pair(fixed(3));
    ByteBuffer source = ByteBuffer.wrap(pattern(4 << 20));
    CompletableFuture<byte[]> arrived =
        CompletableFuture.supplyAsync(() -> readExactly(pair.far(), 4 << 20));
    int sum = 0;
    while (source.hasRemaining()) {
      int before = source.position();
      int bytes = get(pair.near().write(source));
      assertEquals(before + bytes, source.position());
      sum += bytes;
    }
    assertEquals(4 << 20, sum);
    assertArrayEquals(source.array(), Patience.await(arrived, "the bytes"));
  }

  /** A program that catches an InterruptedException sets the status again. */
  @Test
  void anInterruptIsNotThatOfTheHandlerAround() throws Exception {
    Pair pair = pair(fixed(3));
    CompletableFuture<Boolean> seenAround = new CompletableFuture<>();
    CountDownLatch inside = new CountDownLatch(1);
    pair.near()
        .read(
            ByteBuffer.allocate(1),
            null,
            new Then<Integer>() {
              @Override
              public void then(Integer bytes) {
                Thread around = Thread.currentThread();
                pair.near()
                    .write(
                        ByteBuffer.allocate(1),
                        null,
                        new Then<Integer>() {
                          @Override
                          public void then(Integer written) {
                            assertSame(around, Thread.currentThread());
                            Thread.currentThread().interrupt();
                            inside.countDown();
                          }
                        });
                seenAround.complete(inside.getCount() == 0 && Thread.interrupted());
              }
            });
    get(pair.far().write(ByteBuffer.allocate(1)));
    assertFalse(Patience.await(seenAround, "the handler around"));
    Patience.await(inside, "the handler inside");
  }

  /** The third of them, called inside the others, starts the next accept and throws. */
  @Test
  void anErrorOfAnAcceptsHandlerIsNotThatOfTheListener() throws Exception {
    CompletableFuture<Throwable> uncaught = new CompletableFuture<>();
    ThreadFactory factory =
        work -> {
          Thread thread = new Thread(work);
          thread.setUncaughtExceptionHandler((one, error) -> uncaught.complete(error));
          return thread;
        };
    AsynchronousServerSocketChannel listener =
        listen(endLater(provider.openAsynchronousChannelGroup(3, factory)));
    int first = 3;
    int all = 6;
    CountDownLatch connected = new CountDownLatch(1);
    CountDownLatch accepted = new CountDownLatch(all);
    OutOfMemoryError error = new OutOfMemoryError("of the test's handler");
    listener.accept(
        null,
        new Then<AsynchronousSocketChannel>() {
          @Override
          public void then(AsynchronousSocketChannel connection) {
            accepted.countDown();
            long number = all - accepted.getCount();
            Patience.await(connected, "the first clients");
            listener.accept(null, this);
            if (number == first) {
              throw error;
            }
          }
        });
    connectTo(listener, first);
    connected.countDown();
    assertSame(error, Patience.await(uncaught, "the error"));
    connectTo(listener, all - first);
    Patience.await(accepted, "all clients");
    assertTrue(listener.isOpen());
  }

  private void connectTo(AsynchronousServerSocketChannel listener, int clients) throws Exception {
    InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
    for (int i = 0; i < clients; i++) {
      closeLater(new Socket(address.getAddress(), address.getPort()));
    }
  }
}
