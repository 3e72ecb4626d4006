package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.test.Patience;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.IllegalChannelGroupException;
import java.nio.channels.ShutdownChannelGroupException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Groups: which threads run handlers, and how a group ends. */
abstract class GroupContract extends Nio2Contract {

  GroupContract(Maker maker) {
    super(maker);
  }

  /** Makes threads and keeps them. */
  private static final class Factory implements ThreadFactory {
    final Set<Thread> threads = ConcurrentHashMap.newKeySet();

    @Override
    public Thread newThread(Runnable work) {
      Thread thread = new Thread(work);
      threads.add(thread);
      return thread;
    }
  }

  /** Threads that ran the handlers of some reads, writes, and operations done at once. */
  private Set<Thread> handlerThreads(AsynchronousChannelGroup group) throws IOException {
    Set<Thread> threads = ConcurrentHashMap.newKeySet();
    Pair pair = pair(group);
    for (int i = 0; i < 20; i++) {
      Completion<Integer> read = new Completion<>();
      pair.far().read(ByteBuffer.allocate(1), null, read);
      Completion<Integer> write = new Completion<>();
      pair.near().write(ByteBuffer.allocate(1), null, write);
      Completion<Integer> nothing = new Completion<>();
      read.await("read");
      write.await("write");
      pair.near().write(ByteBuffer.allocate(0), null, nothing);
      nothing.await("empty write");
      threads.addAll(List.of(read.thread, write.thread, nothing.thread));
    }
    return threads;
  }

  @Test
  void handlersRunOnTheThreadsOfAFixedGroup() throws IOException {
    for (int threads = 1; threads <= 3; threads += 2) {
      Factory factory = new Factory();
      AsynchronousChannelGroup group =
          endLater(provider.openAsynchronousChannelGroup(threads, factory));
      assertSame(provider, group.provider());
      assertTrue(factory.threads.containsAll(handlerThreads(group)));
    }
  }

  @Test
  void handlersRunInTheExecutorOfTheProgram() throws IOException {
    Factory factory = new Factory();
    ExecutorService executor = Executors.newCachedThreadPool(factory);
    AsynchronousChannelGroup group = endLater(provider.openAsynchronousChannelGroup(executor, 0));
    assertTrue(factory.threads.containsAll(handlerThreads(group)));
  }

  @Test
  void handlersOfTheDefaultGroupAreNotRunByTheCaller() throws IOException {
    for (Thread thread : handlerThreads(null)) {
      assertNotSame(Thread.currentThread(), thread);
      assertTrue(thread.isDaemon(), thread + " keeps the program alive");
    }
  }

  /** So many handlers wait for each other that each needs a thread. */
  private void meet(AsynchronousChannelGroup group, int handlers) throws IOException {
    CountDownLatch meeting = new CountDownLatch(handlers);
    CountDownLatch done = new CountDownLatch(handlers);
    for (int i = 0; i < handlers; i++) {
      Pair pair = pair(group);
      Then<Integer> waiter =
          bytes -> {
            meeting.countDown();
            Patience.await(meeting, "all handlers at the same time");
            done.countDown();
          };
      pair.far().read(ByteBuffer.allocate(1), null, waiter);
      sendByte(pair.near());
    }
    Patience.await(done, "the end of all handlers");
  }

  @Test
  void handlersOfTheDefaultGroupMayBlock() throws IOException {
    meet(null, 3 * Runtime.getRuntime().availableProcessors() + 10);
  }

  @Test
  void handlersOfACachedPoolMayBlock() throws IOException {
    meet(endLater(provider.openAsynchronousChannelGroup(Executors.newCachedThreadPool(), 0)), 20);
  }

  @Test
  void allThreadsOfAFixedGroupRunHandlers() throws IOException {
    meet(fixed(4), 4);
  }

  @Test
  void handlersOfAGroupOfOneDoNotOverlap() throws IOException {
    AsynchronousChannelGroup group = fixed(1);
    AtomicInteger inside = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    int handlers = 200;
    CountDownLatch done = new CountDownLatch(handlers);
    for (int i = 0; i < handlers / 20; i++) {
      Pair pair = pair(group);
      Then<Integer> counter =
          new Then<>() {
            private int left = 20;

            @Override
            public void then(Integer bytes) {
              most.accumulateAndGet(inside.incrementAndGet(), Math::max);
              if (--left > 0) {
                pair.far().read(ByteBuffer.allocate(1), null, this);
              }
              Thread.yield();
              inside.decrementAndGet();
              done.countDown();
            }
          };
      pair.far().read(ByteBuffer.allocate(1), null, counter);
      writeAll(pair.near(), ByteBuffer.allocate(20));
    }
    Patience.await(done, "all handlers");
    // The JDK may call a handler inside a start, 16 deep at most.
    assertTrue(most.get() <= (maker == Maker.JDK ? 17 : 1), "at once: " + most);
  }

  @Test
  void aHandlerOfAGroupOfOneMayWaitForAWrite() throws IOException {
    Pair pair = pair(fixed(1));
    CompletableFuture<Integer> written = new CompletableFuture<>();
    Then<Integer> writer = bytes -> written.complete(get(pair.far().write(ByteBuffer.allocate(3))));
    pair.far().read(ByteBuffer.allocate(1), null, writer);
    sendByte(pair.near());
    assertEquals(3, Patience.await(written, "the write"));
    readExactly(pair.near(), 3);
  }

  @Test
  void aHandlerOfAGroupOfOneMayUseTheBufferOfAChannelThatItHasClosed() throws IOException {
    AsynchronousChannelGroup group = fixed(1);
    Pair idle = pair(group);
    Pair pair = pair(group);
    ByteBuffer buffer = ByteBuffer.allocate(100);
    Completion<Integer> read = new Completion<>();
    idle.far().read(buffer, null, read);
    Then<Integer> closer =
        bytes -> {
          idle.far().close();
          buffer.limit(60).position(50);
        };
    pair.far().read(ByteBuffer.allocate(1), null, closer);
    sendByte(pair.near());
    assertInstanceOf(AsynchronousCloseException.class, read.awaitFailure("read"));
    assertEquals(50, buffer.position());
    assertEquals(60, buffer.limit());
  }

  @Test
  void whatAHandlerThrowsGoesToItsThread() throws IOException {
    for (int threads = 1; threads <= 2; threads++) {
      CompletableFuture<Throwable> caught = new CompletableFuture<>();
      ThreadFactory factory =
          work -> {
            Thread thread = new Thread(work);
            thread.setUncaughtExceptionHandler((t, error) -> caught.complete(error));
            return thread;
          };
      AsynchronousChannelGroup group =
          endLater(provider.openAsynchronousChannelGroup(threads, factory));
      Pair pair = pair(group);
      Then<Integer> thrower =
          bytes -> {
            throw new IllegalStateException("of the handler");
          };
      pair.far().read(ByteBuffer.allocate(1), null, thrower);
      sendByte(pair.near());
      Throwable error = Patience.await(caught, "the exception");
      assertInstanceOf(IllegalStateException.class, error.getCause());
      // The group continues, and so does the channel.
      sendByte(pair.near());
      assertEquals(1, get(pair.far().read(ByteBuffer.allocate(1))));
    }
  }

  @Test
  void aHandlerMayCloseAChannelWhileTheExecutorIsFull() throws IOException {
    CountDownLatch full = new CountDownLatch(1);
    ExecutorService executor =
        new ThreadPoolExecutor(
            1,
            1,
            0,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(1),
            (work, pool) -> {
              full.countDown();
              try {
                pool.getQueue().put(work);
              } catch (InterruptedException e) {
                throw new RejectedExecutionException(e);
              }
            });
    AsynchronousChannelGroup group = endLater(provider.openAsynchronousChannelGroup(executor, 0));
    List<Pair> silent = new ArrayList<>();
    List<Pair> busy = new ArrayList<>();
    CompletableFuture<Void> closed = new CompletableFuture<>();
    Then<Integer> closer =
        bytes -> {
          Patience.await(full, "an execute that waits for room");
          for (Pair pair : silent) {
            pair.far().close();
          }
          closed.complete(null);
        };
    for (int i = 0; i < 8; i++) {
      silent.add(pair(null, group));
      busy.add(pair(null, group));
      busy.get(i).far().read(ByteBuffer.allocate(1), null, i == 0 ? closer : new Completion<>());
    }
    for (Pair pair : busy) {
      sendByte(pair.near());
    }
    Patience.await(closed, "the closes");
  }

  @Test
  void shutdownWaitsForTheChannels() throws Exception {
    ExecutorService executor = Executors.newCachedThreadPool();
    AsynchronousChannelGroup group = provider.openAsynchronousChannelGroup(executor, 0);
    assertFalse(group.isShutdown());
    Pair pair = pair(group);
    group.shutdown();
    group.shutdown();
    assertTrue(group.isShutdown());
    assertFalse(group.isTerminated());
    assertFalse(executor.isShutdown());
    assertThrows(
        ShutdownChannelGroupException.class, () -> provider.openAsynchronousSocketChannel(group));
    assertThrows(
        ShutdownChannelGroupException.class,
        () -> provider.openAsynchronousServerSocketChannel(group));
    sendByte(pair.near());
    assertEquals(1, readExactly(pair.far(), 1)[0]);
    pair.near().close();
    assertFalse(group.awaitTermination(1, TimeUnit.MILLISECONDS));
    pair.far().close();
    awaitTermination(group);
    assertTrue(group.isTerminated());
    // Shut down before the group says that it has terminated.
    assertTrue(executor.isShutdown());
  }

  @Test
  void anEmptyGroupTerminatesAtOnce() throws Exception {
    for (int threads = 1; threads <= 2; threads++) {
      Factory factory = new Factory();
      AsynchronousChannelGroup group = provider.openAsynchronousChannelGroup(threads, factory);
      group.shutdown();
      awaitTermination(group);
      group.shutdownNow();
      for (Thread thread : factory.threads) {
        Patience.await(thread);
      }
    }
  }

  @Test
  void shutdownNowClosesTheChannels() throws Exception {
    for (int threads = 1; threads <= 2; threads++) {
      AsynchronousChannelGroup group = fixed(threads);
      List<Completion<Integer>> reads = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        Completion<Integer> read = new Completion<>();
        pair(group, null).near().read(ByteBuffer.allocate(1), null, read);
        reads.add(read);
      }
      AsynchronousServerSocketChannel listener = listen(group);
      Future<AsynchronousSocketChannel> accept = listener.accept();
      group.shutdownNow();
      awaitTermination(group);
      for (Completion<Integer> read : reads) {
        assertInstanceOf(AsynchronousCloseException.class, read.awaitFailure("read"));
      }
      assertInstanceOf(AsynchronousCloseException.class, failure(accept));
      assertFalse(listener.isOpen());
    }
  }

  @Test
  void aHandlerMayShutItsGroupDown() throws Exception {
    AsynchronousChannelGroup group = fixed(1);
    Completion<Integer> pending = new Completion<>();
    pair(group, null).near().read(ByteBuffer.allocate(1), null, pending);
    Pair pair = pair(group, null);
    Then<Integer> end = bytes -> group.shutdownNow();
    pair.near().read(ByteBuffer.allocate(1), null, end);
    sendByte(pair.far());
    awaitTermination(group);
    // Operations in flight completed before the group ended.
    assertInstanceOf(AsynchronousCloseException.class, pending.awaitFailure("read"));
  }

  @Test
  void aGroupWaitsForItsHandlers() throws Exception {
    AsynchronousChannelGroup group = fixed(2);
    Pair pair = pair(group);
    CountDownLatch entered = new CountDownLatch(1);
    CountDownLatch leave = new CountDownLatch(1);
    Then<Integer> waiter =
        bytes -> {
          entered.countDown();
          Patience.await(leave, "the test");
        };
    pair.far().read(ByteBuffer.allocate(1), null, waiter);
    sendByte(pair.near());
    Patience.await(entered, "the handler");
    group.shutdownNow();
    assertFalse(group.awaitTermination(1, TimeUnit.MILLISECONDS));
    leave.countDown();
    awaitTermination(group);
  }

  @Test
  void aGroupThatShutsDownAcceptsNothing() throws Exception {
    AsynchronousChannelGroup group = fixed(1);
    AsynchronousServerSocketChannel listener = listen(group);
    Future<AsynchronousSocketChannel> accept = listener.accept();
    group.shutdown();
    AsynchronousSocketChannel client = open(null);
    get(client.connect(listener.getLocalAddress()));
    Throwable error = failure(accept);
    assertInstanceOf(IOException.class, error);
    assertInstanceOf(ShutdownChannelGroupException.class, error.getCause());
    assertEquals(-1, get(client.read(ByteBuffer.allocate(1))));
  }

  @Test
  void aTerminatedGroupRunsNoHandlers() throws Exception {
    AsynchronousChannelGroup group = fixed(2);
    AsynchronousSocketChannel channel = pair(group).near();
    group.shutdownNow();
    awaitTermination(group);
    Completion<Integer> unused = new Completion<>();
    assertThrows(
        ShutdownChannelGroupException.class,
        () -> channel.read(ByteBuffer.allocate(1), null, unused));
  }

  @Test
  void badArgumentsAreRefused() throws IOException {
    Maker other = maker == Maker.JDK ? Maker.BATON : Maker.JDK;
    AsynchronousChannelGroup foreign =
        endLater(
            other.provider().openAsynchronousChannelGroup(1, Executors.defaultThreadFactory()));
    assertThrows(
        IllegalChannelGroupException.class, () -> provider.openAsynchronousSocketChannel(foreign));
    assertThrows(
        IllegalChannelGroupException.class,
        () -> provider.openAsynchronousServerSocketChannel(foreign));
    ThreadFactory factory = Executors.defaultThreadFactory();
    assertThrows(
        IllegalArgumentException.class, () -> provider.openAsynchronousChannelGroup(0, factory));
    assertThrows(NullPointerException.class, () -> provider.openAsynchronousChannelGroup(1, null));
    assertThrows(NullPointerException.class, () -> provider.openAsynchronousChannelGroup(null, 1));
  }
}
