package io.baton.nio2;

import io.baton.Demultiplexor;
import io.baton.test.Patience;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.nio.channels.spi.AsynchronousChannelProvider;
import java.util.ArrayDeque;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;

/**
 * Shared by the parts of the suite. Every test runs with the JDK's own provider, too: what fails
 * there is no rule of NIO.2.
 */
abstract class Nio2Contract {
  /** Whose channels are tested. */
  enum Maker {
    JDK {
      @Override
      AsynchronousChannelProvider provider() {
        AsynchronousChannelProvider provider = AsynchronousChannelProvider.provider();
        if (provider instanceof BatonProvider) {
          throw new AssertionError("the property is set, so nothing is proved on the JDK");
        }
        return provider;
      }
    },
    BATON {
      @Override
      AsynchronousChannelProvider provider() {
        return Holder.PROVIDER;
      }
    };

    abstract AsynchronousChannelProvider provider();

    private static final class Holder {
      static final BatonProvider PROVIDER = new BatonProvider();
    }
  }

  /** Two ends of one connection. */
  record Pair(AsynchronousSocketChannel near, AsynchronousSocketChannel far) {}

  /** A handler that does something with every result. */
  interface Then<V> extends CompletionHandler<V, Object> {
    void then(V result) throws Exception;

    @Override
    default void completed(V result, Object attachment) {
      try {
        then(result);
      } catch (Exception e) {
        throw new AssertionError(e);
      }
    }

    @Override
    default void failed(Throwable error, Object attachment) {
      throw new AssertionError(error);
    }
  }

  static final InetSocketAddress ANY_PORT =
      new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);

  final Maker maker;
  final AsynchronousChannelProvider provider;
  private final ArrayDeque<AutoCloseable> toClose = new ArrayDeque<>();

  Nio2Contract(Maker maker) {
    this.maker = maker;
    provider = maker.provider();
  }

  @AfterEach
  void closeAll() throws Exception {
    while (!toClose.isEmpty()) {
      toClose.pop().close();
    }
  }

  <T extends AutoCloseable> T closeLater(T resource) {
    toClose.push(resource);
    return resource;
  }

  /** The group ends with the test. */
  AsynchronousChannelGroup endLater(AsynchronousChannelGroup group) {
    toClose.push(
        () -> {
          group.shutdownNow();
          awaitTermination(group);
        });
    return group;
  }

  AsynchronousChannelGroup fixed(int threads) throws IOException {
    return endLater(
        provider.openAsynchronousChannelGroup(threads, Executors.defaultThreadFactory()));
  }

  static void awaitTermination(AsynchronousChannelGroup group) throws InterruptedException {
    if (!group.awaitTermination(Patience.PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
      throw new AssertionError("the group did not terminate");
    }
  }

  AsynchronousSocketChannel open(AsynchronousChannelGroup group) throws IOException {
    return closeLater(provider.openAsynchronousSocketChannel(group));
  }

  AsynchronousServerSocketChannel listen(AsynchronousChannelGroup group) throws IOException {
    return closeLater(provider.openAsynchronousServerSocketChannel(group)).bind(ANY_PORT);
  }

  /** Both ends are of the group; null: the default group. */
  Pair pair(AsynchronousChannelGroup group) throws IOException {
    return pair(group, group);
  }

  Pair pair(AsynchronousChannelGroup nearGroup, AsynchronousChannelGroup farGroup)
      throws IOException {
    try (AsynchronousServerSocketChannel listener = listen(farGroup)) {
      Future<AsynchronousSocketChannel> far = listener.accept();
      AsynchronousSocketChannel near = open(nearGroup);
      get(near.connect(listener.getLocalAddress()));
      return new Pair(near, closeLater(get(far)));
    }
  }

  /** Holds up all lanes of a group of Baton's, until the latch is counted down. */
  static CountDownLatch heldLanes(AsynchronousChannelGroup group) {
    Demultiplexor demultiplexor = ((Group) group).demultiplexor();
    CountDownLatch held = new CountDownLatch(demultiplexor.getThreads());
    CountDownLatch release = new CountDownLatch(1);
    for (int i = 0; i < demultiplexor.getThreads(); i++) {
      demultiplexor.post(
          () -> {
            held.countDown();
            awaitWithoutLimit(release);
          });
    }
    Patience.await(held, "the lanes");
    return release;
  }

  /** Longer than the test waits for what must happen meanwhile. */
  private static void awaitWithoutLimit(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** The result of a future that must succeed. */
  static <V> V get(Future<V> future) {
    try {
      return future.get(Patience.PATIENCE.toSeconds(), TimeUnit.SECONDS);
    } catch (InterruptedException | ExecutionException | TimeoutException e) {
      throw new AssertionError("the operation did not succeed: " + e, e);
    }
  }

  /** Why a future failed. */
  static Throwable failure(Future<?> future) {
    try {
      Object result = future.get(Patience.PATIENCE.toSeconds(), TimeUnit.SECONDS);
      throw new AssertionError("the operation succeeded: " + result);
    } catch (ExecutionException e) {
      return e.getCause();
    } catch (InterruptedException | TimeoutException e) {
      throw new AssertionError("the operation did not end: " + e, e);
    }
  }

  static void writeAll(AsynchronousSocketChannel channel, ByteBuffer data) {
    while (data.hasRemaining()) {
      get(channel.write(data));
    }
  }

  static void sendByte(AsynchronousSocketChannel channel) {
    writeAll(channel, ByteBuffer.wrap(new byte[] {1}));
  }

  static byte[] readExactly(AsynchronousSocketChannel channel, int bytes) {
    ByteBuffer data = ByteBuffer.allocate(bytes);
    while (data.hasRemaining()) {
      if (get(channel.read(data)) < 0) {
        throw new AssertionError("the stream ended after " + data.position() + " bytes");
      }
    }
    return data.array();
  }

  /** Bytes that differ from place to place. */
  static byte[] pattern(int bytes) {
    byte[] data = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      data[i] = (byte) (i * 31 + i / 251);
    }
    return data;
  }

  /** A listener whose queue is full, so that further connects stay pending. */
  final class FullListener implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    private final ArrayDeque<Socket> waiting = new ArrayDeque<>();

    FullListener() throws IOException {
      try {
        while (true) {
          Socket socket = new Socket();
          waiting.add(socket);
          socket.connect(listener.getLocalSocketAddress(), 200);
        }
      } catch (SocketTimeoutException e) {
        // Full: the system answers no more.
        closeLater(this);
      }
    }

    InetSocketAddress address() {
      return (InetSocketAddress) listener.getLocalSocketAddress();
    }

    @Override
    public void close() throws IOException {
      for (Socket socket : waiting) {
        socket.close();
      }
      listener.close();
    }
  }
}
