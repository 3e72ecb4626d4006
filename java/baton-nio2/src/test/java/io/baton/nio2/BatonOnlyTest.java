package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.baton.test.ChildJvm;
import io.baton.test.Patience;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.ref.WeakReference;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.nio.channels.ShutdownChannelGroupException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Baton's behaviour beyond the rules of NIO.2, and where the JDK does something else. */
class BatonOnlyTest extends Nio2Contract {

  BatonOnlyTest() {
    super(Maker.BATON);
  }

  /** Runs an action in the handler of a read, and gives its result. */
  private static <V> V inHandler(Pair pair, Callable<V> action) {
    CompletableFuture<V> result = new CompletableFuture<>();
    // The byte can be here before the call that sent it has returned. The action may write to the
    // same channel, so it starts after that.
    CountDownLatch sent = new CountDownLatch(1);
    Then<Integer> runner =
        bytes -> {
          try {
            sent.await();
            result.complete(action.call());
          } catch (Throwable e) {
            result.completeExceptionally(e);
          }
        };
    pair.far().read(ByteBuffer.allocate(1), null, runner);
    sendByte(pair.near());
    sent.countDown();
    return Patience.await(result, "the handler");
  }

  @Test
  void aHandlerOfAGroupOfOneMayWaitForARead() throws IOException {
    AsynchronousChannelGroup group = fixed(1);
    Pair pair = pair(group);
    Pair other = pair(group);
    List<String> order = new ArrayList<>();
    Completion<Integer> putOff = new Completion<>();
    other.far().read(ByteBuffer.allocate(1), null, putOff);
    int bytes =
        inHandler(
            pair,
            () -> {
              // Both completions arrive inside; the handler of the other channel has to wait.
              writeAll(other.near(), ByteBuffer.allocate(1));
              writeAll(pair.near(), ByteBuffer.allocate(2));
              byte[] data = readExactly(pair.far(), 2);
              order.add("handler done, other " + putOff.result.isDone());
              return data.length;
            });
    assertEquals(2, bytes);
    assertEquals(1, putOff.await("the other read"));
    assertEquals(List.of("handler done, other false"), order);
  }

  /** Virtual threads; of the system on a JDK that has no virtual ones. */
  private static ThreadFactory virtualThreads() throws ReflectiveOperationException {
    if (Runtime.version().feature() < 21) {
      return Thread::new;
    }
    Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
    return (ThreadFactory)
        Class.forName("java.lang.Thread$Builder").getMethod("factory").invoke(builder);
  }

  /** Sends a byte to and fro; its handlers block, so that a virtual thread changes its carrier. */
  private static final class PingPong implements CompletionHandler<Integer, Boolean> {
    private final Pair pair;
    private int rounds = 20;
    final CompletableFuture<Void> done = new CompletableFuture<>();

    PingPong(Pair pair) {
      this.pair = pair;
    }

    @Override
    public void completed(Integer bytes, Boolean wrote) {
      try {
        // A virtual thread leaves its thread of the system.
        Thread.sleep(1);
      } catch (InterruptedException e) {
        failed(e, wrote);
        return;
      }
      if (wrote) {
        pair.far().read(ByteBuffer.allocate(1), false, this);
      } else if (rounds-- > 0) {
        pair.near().write(ByteBuffer.allocate(1), true, this);
      } else {
        done.complete(null);
      }
    }

    @Override
    public void failed(Throwable error, Boolean wrote) {
      done.completeExceptionally(error);
    }
  }

  @Test
  void aFixedGroupMayHaveVirtualThreads() throws Exception {
    for (int threads = 1; threads <= 3; threads += 2) {
      AsynchronousChannelGroup group =
          endLater(provider.openAsynchronousChannelGroup(threads, virtualThreads()));
      List<PingPong> all = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        PingPong one = new PingPong(pair(group));
        all.add(one);
        one.completed(0, false);
      }
      for (PingPong one : all) {
        Patience.await(one.done, "a byte that comes and goes");
      }
    }
  }

  /** Reads one byte after the other. */
  private static final class Reader implements CompletionHandler<Integer, Object> {
    private final AsynchronousSocketChannel channel;
    private final Runnable told;
    private final ByteBuffer room = ByteBuffer.allocate(1);

    Reader(AsynchronousSocketChannel channel, Runnable told) {
      this.channel = channel;
      this.told = told;
    }

    void read() {
      channel.read(room.clear(), null, this);
    }

    @Override
    public void completed(Integer bytes, Object attachment) {
      told.run();
      read();
    }

    @Override
    public void failed(Throwable error, Object attachment) {
      // The test is over.
    }
  }

  /** Sends back each byte, and tells what its thread has allocated. */
  private static final class CountedEcho implements CompletionHandler<Integer, Boolean> {
    private final AsynchronousSocketChannel channel;
    private final ByteBuffer room = ByteBuffer.allocateDirect(1);
    private volatile long lane;

    CountedEcho(AsynchronousSocketChannel channel) {
      this.channel = channel;
    }

    long allocated() {
      return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getThreadAllocatedBytes(lane);
    }

    @Override
    public void completed(Integer bytes, Boolean wasRead) {
      lane = Thread.currentThread().getId();
      if (wasRead) {
        channel.write(room.flip(), false, this);
      } else {
        channel.read(room.clear(), true, this);
      }
    }

    @Override
    public void failed(Throwable error, Boolean wasRead) {
      // The test is over.
    }
  }

  @Test
  void aGroupOfOneUsesItsOperationsAgain() throws Exception {
    AsynchronousServerSocketChannel listener = listen(fixed(1));
    InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
    Socket client = closeLater(new Socket(address.getAddress(), address.getPort()));
    client.setTcpNoDelay(true);
    CountedEcho echo = new CountedEcho(closeLater(get(listener.accept())));
    echo.channel.read(echo.room, true, echo);
    int messages = 500;
    long least = Long.MAX_VALUE;
    for (int round = 0; round < 5; round++) {
      long before = round == 0 ? 0 : echo.allocated();
      for (int i = 0; i < messages; i++) {
        client.getOutputStream().write(1);
        assertEquals(1, client.getInputStream().read());
      }
      if (round > 0) {
        least = Math.min(least, (echo.allocated() - before) / messages);
      }
    }
    // The starts make small objects before they are compiled. Two operations are 160 bytes.
    assertTrue(least < 120, "bytes a message: " + least);
  }

  @Test
  void connectionsThatWaitAreAcceptedWithoutTheLanes() throws Exception {
    int connections = 20;
    AsynchronousChannelGroup group = fixed(2);
    AsynchronousServerSocketChannel listener = listen(group);
    InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
    CountDownLatch first = new CountDownLatch(1);
    CountDownLatch lanesAreHeld = new CountDownLatch(1);
    CountDownLatch accepted = new CountDownLatch(connections);
    listener.accept(
        null,
        new Then<AsynchronousSocketChannel>() {
          @Override
          public void then(AsynchronousSocketChannel connection) throws Exception {
            first.countDown();
            // All others wait at the listener from here on.
            lanesAreHeld.await();
            closeLater(connection);
            listener.accept(null, this);
            accepted.countDown();
          }
        });
    for (int i = 0; i < connections; i++) {
      closeLater(new Socket(address.getAddress(), address.getPort()));
    }
    Patience.await(first, "the first connection");
    CountDownLatch release = heldLanes(group);
    try {
      lanesAreHeld.countDown();
      Patience.await(accepted, "the connections");
    } finally {
      release.countDown();
    }
  }

  @Test
  void connectionsThatWaitAreAcceptedBesideBusySessions() throws Exception {
    int sessions = 64;
    int connections = 100;
    AsynchronousChannelGroup group = fixed(1);
    AsynchronousServerSocketChannel listener = listen(group);
    InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
    for (int i = 0; i < connections; i++) {
      closeLater(new Socket(address.getAddress(), address.getPort()));
    }
    CountDownLatch accepted = new CountDownLatch(connections);
    AtomicInteger reads = new AtomicInteger();
    AtomicInteger readsUntilLast = new AtomicInteger();
    CompletionHandler<AsynchronousSocketChannel, Object> accepting =
        new CompletionHandler<>() {
          @Override
          public void completed(AsynchronousSocketChannel connection, Object attachment) {
            closeLater(connection);
            listener.accept(null, this);
            readsUntilLast.set(reads.get());
            accepted.countDown();
          }

          @Override
          public void failed(Throwable error, Object attachment) {
            // The test is over.
          }
        };
    AtomicInteger busy = new AtomicInteger();
    for (int i = 0; i < sessions; i++) {
      Pair pair = pair(group);
      writeAll(pair.near(), ByteBuffer.allocate(16 << 10));
      AtomicBoolean isBusy = new AtomicBoolean();
      Runnable told =
          () -> {
            reads.incrementAndGet();
            if (isBusy.compareAndSet(false, true) && busy.incrementAndGet() == sessions) {
              reads.set(0);
              listener.accept(null, accepting);
            }
          };
      new Reader(pair.far(), told).read();
    }
    Patience.await(accepted, "the last connection that waited");
    assertTrue(
        readsUntilLast.get() <= 10 * connections,
        () -> readsUntilLast + " reads before the last of " + connections + " connections");
  }

  @Test
  void anAcceptGoesBeforeHandlersThatAreDueEarlier() throws Exception {
    int sessions = 20;
    BlockingQueue<Runnable> due = new LinkedBlockingQueue<>();
    AsynchronousChannelGroup group =
        endLater(provider.openAsynchronousChannelGroup(new OwnExecutor(due::add), 0));
    List<String> told = new ArrayList<>();
    List<Runnable> work = new ArrayList<>();
    for (int i = 0; i < sessions; i++) {
      Pair pair = pair(group);
      String name = "read " + i;
      Then<Integer> reading = bytes -> told.add(name);
      pair.far().read(ByteBuffer.allocate(1), null, reading);
      sendByte(pair.near());
      work.add(next(due));
    }
    AsynchronousServerSocketChannel listener = listen(group);
    Then<AsynchronousSocketChannel> accepting =
        connection -> {
          closeLater(connection);
          told.add("accept");
        };
    listener.accept(null, accepting);
    get(open(group).connect(listener.getLocalAddress()));
    work.add(next(due));
    // The lane of the listener has nothing more to do for the first accept when it does this.
    Future<AsynchronousSocketChannel> second = listener.accept();
    get(open(group).connect(listener.getLocalAddress()));
    closeLater(get(second));
    work.get(0).run();
    assertEquals(List.of("accept"), told);
    work.subList(1, work.size()).forEach(Runnable::run);
    assertEquals(sessions + 1, told.size());
    assertEquals(sessions + 1, new HashSet<>(told).size(), "each handler once");
    assertEquals("read 0", told.get(sessions));
  }

  private static Runnable next(BlockingQueue<Runnable> due) throws InterruptedException {
    Runnable next = due.poll(Patience.PATIENCE.toSeconds(), TimeUnit.SECONDS);
    if (next == null) {
      throw new AssertionError("no handler is due");
    }
    return next;
  }

  @Test
  void anUncaughtExceptionHandlerThatThrowsLosesNothing() throws IOException {
    ThreadFactory factory =
        work -> {
          Thread thread = new Thread(work);
          thread.setUncaughtExceptionHandler(
              (where, error) -> {
                throw new IllegalStateException("of the exception handler");
              });
          return thread;
        };
    AsynchronousChannelGroup group = endLater(provider.openAsynchronousChannelGroup(1, factory));
    Pair pair = pair(group);
    Pair other = pair(group);
    Completion<Integer> putOff = new Completion<>();
    other.far().read(ByteBuffer.allocate(1), null, putOff);
    Then<Integer> thrower =
        bytes -> {
          writeAll(other.near(), ByteBuffer.allocate(1));
          writeAll(pair.far(), ByteBuffer.allocate(2));
          readExactly(pair.near(), 2);
          throw new IllegalStateException("of the handler");
        };
    pair.far().read(ByteBuffer.allocate(1), null, thrower);
    sendByte(pair.near());
    assertEquals(1, putOff.await("the other read"));
  }

  @Test
  void waitingInAHandlerHasAnEnd() throws IOException {
    Pair pair = pair(fixed(1));
    Future<Integer> read =
        inHandler(
            pair,
            () -> {
              Future<Integer> never = pair.far().read(ByteBuffer.allocate(1));
              assertThrows(TimeoutException.class, () -> never.get(1, TimeUnit.MILLISECONDS));
              Thread.currentThread().interrupt();
              assertThrows(InterruptedException.class, never::get);
              return never;
            });
    assertFalse(read.isDone());
    writeAll(pair.near(), ByteBuffer.allocate(1));
    assertEquals(1, get(read));
  }

  @Test
  void whatAnExecutorHandsBackOrRefusesRunsOnASpareThread() throws IOException {
    ExecutorService backs =
        new ThreadPoolExecutor(
            0,
            1,
            0,
            TimeUnit.SECONDS,
            new SynchronousQueue<>(),
            new ThreadPoolExecutor.CallerRunsPolicy());
    ExecutorService refuses =
        new ThreadPoolExecutor(0, 1, 0, TimeUnit.SECONDS, new SynchronousQueue<>());
    for (ExecutorService executor : List.of(backs, refuses)) {
      AsynchronousChannelGroup group = endLater(provider.openAsynchronousChannelGroup(executor, 0));
      Pair first = pair(group);
      Pair second = pair(group);
      // The inner handler finds the only thread of the executor busy. It waits for a read whose
      // lane it may be on, so the lane must not run it.
      int bytes =
          inHandler(
              first,
              () ->
                  inHandler(
                      second,
                      () -> {
                        Future<Integer> read = second.far().read(ByteBuffer.allocate(1));
                        writeAll(second.near(), ByteBuffer.allocate(1));
                        return get(read);
                      }));
      assertEquals(1, bytes);
    }
  }

  /** Runs tasks as the test says. */
  private static class OwnExecutor extends AbstractExecutorService {
    private final Executor way;
    private volatile boolean shutdown;

    OwnExecutor(Executor way) {
      this.way = way;
    }

    @Override
    public void execute(Runnable work) {
      way.execute(work);
    }

    @Override
    public void shutdown() {
      shutdown = true;
    }

    @Override
    public List<Runnable> shutdownNow() {
      shutdown();
      return List.of();
    }

    @Override
    public boolean isShutdown() {
      return shutdown;
    }

    @Override
    public boolean isTerminated() {
      return shutdown;
    }

    @Override
    public boolean awaitTermination(long timeout, TimeUnit unit) {
      return shutdown;
    }
  }

  @Test
  void anExecutorThatFailsLosesNothing() throws Exception {
    for (Throwable fault :
        List.of(
            new IllegalStateException(),
            new OutOfMemoryError(),
            new NoClassDefFoundError("of the executor"))) {
      Executor failing =
          work -> {
            if (fault instanceof Error error) {
              throw error;
            }
            throw (RuntimeException) fault;
          };
      AsynchronousChannelGroup group =
          provider.openAsynchronousChannelGroup(new OwnExecutor(failing), 0);
      Pair pair = pair(group);
      Completion<Integer> read = new Completion<>();
      pair.far().read(ByteBuffer.allocate(1), null, read);
      sendByte(pair.near());
      assertEquals(1, read.await("read"));
      assertTrue(pair.far().isOpen());
      group.shutdownNow();
      awaitTermination(group);
    }
  }

  @Test
  void anExecutorThatTakesWorkAndFailsCallsNoHandlerTwice() throws Exception {
    // As a ForkJoinPool that can make no thread; an earlier one comes back for the work later.
    List<Runnable> taken = Collections.synchronizedList(new ArrayList<>());
    Executor failing =
        work -> {
          taken.add(work);
          throw new OutOfMemoryError("there is no thread");
        };
    AsynchronousChannelGroup group =
        endLater(provider.openAsynchronousChannelGroup(new OwnExecutor(failing), 0));
    Pair pair = pair(group);
    for (int i = 0; i < 10; i++) {
      Completion<Integer> read = new Completion<>();
      pair.far().read(ByteBuffer.allocate(1), null, read);
      sendByte(pair.near());
      assertEquals(1, read.await("read"));
    }
    assertEquals(10, taken.size());
    taken.forEach(Runnable::run);
    assertFalse(group.isTerminated());
    Completion<Integer> last = new Completion<>();
    pair.far().read(ByteBuffer.allocate(1), null, last);
    sendByte(pair.near());
    assertEquals(1, last.await("read"));
  }

  @Test
  void aGroupTerminatesWhenItsExecutorRefusesToShutDown() throws Exception {
    ExecutorService managed =
        new OwnExecutor(ForkJoinPool.commonPool()) {
          @Override
          public void shutdown() {
            throw new IllegalStateException("of the test");
          }
        };
    AsynchronousChannelGroup group = provider.openAsynchronousChannelGroup(managed, 0);
    group.shutdown();
    awaitTermination(group);
  }

  @Test
  void noHandlerRunsInsideAStart() throws IOException {
    ExecutorService direct = new OwnExecutor(Runnable::run);
    Pair pair = pair(endLater(provider.openAsynchronousChannelGroup(direct, 0)));
    ByteBuffer empty = ByteBuffer.allocate(0);
    Completion<Integer> atOnce = new Completion<>();
    pair.near().write(empty, null, atOnce);
    assertEquals(0, atOnce.await("write"));
    assertNotSame(Thread.currentThread(), atOnce.thread);
    // A handler that starts the next one would exhaust the stack.
    CountDownLatch many = new CountDownLatch(5_000);
    pair.near()
        .write(
            empty,
            null,
            new Then<Integer>() {
              @Override
              public void then(Integer bytes) {
                many.countDown();
                if (many.getCount() > 0) {
                  pair.near().write(empty, null, this);
                }
              }
            });
    Patience.await(many, "the last write");
    pair.near().close();
    Completion<Integer> refused = new Completion<>();
    pair.near().read(ByteBuffer.allocate(1), null, refused);
    refused.awaitFailure("read");
    assertNotSame(Thread.currentThread(), refused.thread);
  }

  @Test
  void aCloseKeepsAnInterrupt() throws Exception {
    AsynchronousChannelGroup group = fixed(2);
    for (int i = 0; i < 100; i++) {
      Pair pair = pair(group);
      Thread.currentThread().interrupt();
      pair.near().close();
      assertTrue(Thread.interrupted());
      pair.far().close();
    }
  }

  private WeakReference<Object> closedAndLeft(AsynchronousChannelGroup group) throws Exception {
    AsynchronousSocketChannel channel = provider.openAsynchronousSocketChannel(group);
    channel.close();
    return new WeakReference<>(channel);
  }

  @Test
  void aClosedChannelIsForgotten() throws Exception {
    Patience.awaitForgotten(closedAndLeft(fixed(2)), "a channel");
  }

  private List<WeakReference<?>> written(Pair pair) {
    return inHandler(
        pair,
        () -> {
          ByteBuffer buffer = ByteBuffer.allocate(1);
          Object attachment = new Object();
          pair.far().write(buffer, attachment, new Completion<Integer>());
          return List.of(new WeakReference<>(buffer), new WeakReference<>(attachment));
        });
  }

  @Test
  void anOpenChannelKeepsNothingOfItsCompletedOperations() throws Exception {
    Pair pair = pair(fixed(1));
    for (WeakReference<?> one : written(pair)) {
      Patience.awaitForgotten(one, "a buffer or an attachment");
    }
    assertTrue(pair.far().isOpen());
  }

  @Test
  void buffersMayHaveMoreThanALongWriteTakes() throws IOException {
    Pair pair = pair(null);
    // More than an int can count.
    ByteBuffer one = ByteBuffer.allocate(1 << 20);
    ByteBuffer[] many = new ByteBuffer[2049];
    Arrays.setAll(many, i -> one.duplicate());
    Completion<Long> write = new Completion<>();
    pair.near().write(many, 0, many.length, 0, TimeUnit.SECONDS, null, write);
    assertTrue(write.await("write") > 0);
  }

  @Test
  void aChannelThatCannotBeOpenedDoesNotKeepItsGroup() throws Exception {
    for (int threads = 1; threads <= 2; threads++) {
      Group group = (Group) fixed(threads);
      group.demultiplexor().close();
      assertThrows(
          ShutdownChannelGroupException.class, () -> provider.openAsynchronousSocketChannel(group));
      group.shutdown();
      awaitTermination(group);
    }
  }

  @Test
  void aFactoryThatFailsLeavesNoThreads() {
    List<Thread> made = new ArrayList<>();
    ThreadFactory failing =
        work -> {
          if (made.size() == 2) {
            throw new OutOfMemoryError("of the test");
          }
          Thread thread = new Thread(work);
          made.add(thread);
          return thread;
        };
    assertThrows(OutOfMemoryError.class, () -> provider.openAsynchronousChannelGroup(3, failing));
    assertEquals(2, made.size());
    made.forEach(Patience::await);
  }

  @Test
  void messagesNameTheArgument() throws IOException {
    AsynchronousSocketChannel channel = pair(null).near();
    ByteBuffer good = ByteBuffer.allocate(1);
    ByteBuffer[] mixed = {good, good.asReadOnlyBuffer()};
    Completion<Integer> one = new Completion<>();
    Completion<Long> many = new Completion<>();
    TimeUnit unit = TimeUnit.SECONDS;
    names("dst", () -> channel.read(mixed[1]));
    names("dst", () -> channel.read((ByteBuffer) null));
    names("src", () -> channel.write((ByteBuffer) null));
    names("handler", () -> channel.read(good, null, null));
    names("unit", () -> channel.read(good, 1, null, null, one));
    names("dsts[1]", () -> channel.read(mixed, 1, 1, 0, unit, null, many));
    names("srcs[0]", () -> channel.write(new ByteBuffer[1], 0, 1, 0, unit, null, many));
    names("dsts", () -> channel.read(null, 0, 1, 0, unit, null, many));
    names("offset, length", () -> channel.write(mixed, 1, 2, 0, unit, null, many));
    names("remote", () -> channel.connect(null));
    names("name", () -> channel.getOption(null));
    names("nThreads", () -> provider.openAsynchronousChannelGroup(0, Thread::new));
    names("factory", () -> provider.openAsynchronousChannelGroup(1, null));
    names("factory", () -> provider.openAsynchronousChannelGroup(1, work -> null));
    names("factory", () -> provider.openAsynchronousChannelGroup(2, work -> null));
    names("executor", () -> provider.openAsynchronousChannelGroup(null, 1));
    SocketAddress unresolved = InetSocketAddress.createUnresolved("nowhere.invalid", 1);
    Throwable cause =
        assertThrows(IllegalArgumentException.class, () -> open(null).connect(unresolved))
            .getCause();
    assertTrue(cause.getMessage().startsWith("remote: "), cause.getMessage());
  }

  private static void names(String argument, Executable call) {
    Throwable error = assertThrows(RuntimeException.class, call);
    assertTrue(String.valueOf(error.getMessage()).startsWith(argument + ":"), error.toString());
  }

  /** Uses IPv6 where the Java machine has IPv4 only. */
  static final class OnlyIpv4 {
    private OnlyIpv4() {}

    public static void main(String[] arguments) {
      BatonProvider provider = new BatonProvider();
      InetSocketAddress address = new InetSocketAddress("::1", 9);
      List<Callable<?>> calls =
          List.of(
              () -> provider.openAsynchronousSocketChannel(null).bind(address),
              () -> provider.openAsynchronousServerSocketChannel(null).bind(address),
              () -> provider.openAsynchronousSocketChannel(null).connect(address).get());
      for (Callable<?> call : calls) {
        try {
          call.call();
        } catch (Exception e) {
          System.out.println("refused " + (e instanceof ExecutionException ? e.getCause() : e));
        }
      }
    }
  }

  @Test
  void anAddressOfAnotherFamilyIsAnIoException() throws Exception {
    try (ChildJvm child =
        ChildJvm.of(OnlyIpv4.class).jvmArgument("-Djava.net.preferIPv4Stack=true").start()) {
      // Such as the JDK has it.
      String refused = "refused java.net.SocketException: Protocol family unavailable\n";
      assertEquals(refused.repeat(3), child.rest());
      // The threads of the default group do not keep a program alive.
      assertTrue(child.process().waitFor(60, TimeUnit.SECONDS));
    }
  }

  @Test
  void thePropertyChoosesTheEngine() throws Exception {
    System.setProperty("baton", "engine=nio,threads=3");
    try {
      Group group = (Group) fixed(2);
      assertEquals("nio", group.demultiplexor().getEngine());
      assertEquals(3, group.demultiplexor().getThreads());
      // A group of one has one thread.
      assertEquals(1, ((Group) fixed(1)).demultiplexor().getThreads());
      System.setProperty("baton", "engine=steam");
      for (int threads = 1; threads <= 2; threads++) {
        int number = threads;
        String message =
            assertThrows(IllegalArgumentException.class, () -> fixed(number)).getMessage();
        assertTrue(message.contains("steam") && message.contains("nio"), message);
      }
      ExecutorService executor = Executors.newCachedThreadPool();
      assertThrows(
          IllegalArgumentException.class, () -> provider.openAsynchronousChannelGroup(executor, 0));
      assertFalse(executor.isShutdown());
    } finally {
      System.clearProperty("baton");
    }
  }

  static final class OwnThreads implements ThreadFactory {
    static final Set<Thread> MADE = ConcurrentHashMap.newKeySet();

    @Override
    public Thread newThread(Runnable work) {
      Thread thread = new Thread(work);
      thread.setDaemon(true);
      MADE.add(thread);
      return thread;
    }
  }

  @Test
  void theDefaultGroupInheritsNothingOfAnApplication() throws IOException {
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    AtomicBoolean inherited = new AtomicBoolean();
    InheritableThreadLocal<String> request =
        new InheritableThreadLocal<>() {
          @Override
          protected String childValue(String value) {
            inherited.set(true);
            return value;
          }
        };
    Thread current = Thread.currentThread();
    ClassLoader own = current.getContextClassLoader();
    ClassLoader application = new ClassLoader(own) {};
    CompletableFuture<ClassLoader> seen = new CompletableFuture<>();
    current.setContextClassLoader(application);
    request.set("of the application");
    try {
      var listener = closeLater(new BatonProvider().openAsynchronousServerSocketChannel(null));
      listener.bind(new InetSocketAddress("127.0.0.1", 0));
      Then<AsynchronousSocketChannel> then =
          accepted -> {
            seen.complete(Thread.currentThread().getContextClassLoader());
            accepted.close();
          };
      listener.accept(null, then);
      get(open(null).connect(listener.getLocalAddress()));
      assertSame(ClassLoader.getSystemClassLoader(), Patience.await(seen, "the accept"));
      // A thread that the application's own thread makes.
      AsynchronousSocketChannel closed =
          closeLater(new BatonProvider().openAsynchronousSocketChannel(null));
      closed.close();
      Completion<Void> refused = new Completion<>();
      closed.connect(ANY_PORT, null, refused);
      refused.awaitFailure("connect");
      assertSame(ClassLoader.getSystemClassLoader(), refused.thread.getContextClassLoader());
      // The lanes, which live as long as the Java machine, and not those of the test.
      for (Thread thread : Thread.getAllStackTraces().keySet()) {
        if (!before.contains(thread)) {
          assertNotSame(application, thread.getContextClassLoader(), thread::getName);
        }
      }
      assertFalse(inherited.get());
    } finally {
      request.remove();
      current.setContextClassLoader(own);
    }
  }

  @Test
  void thePropertyNamesTheThreadsOfTheDefaultPool() throws IOException {
    String name = "java.nio.channels.DefaultThreadPool.threadFactory";
    System.setProperty(name, OwnThreads.class.getName());
    try {
      AsynchronousSocketChannel channel =
          closeLater(new BatonProvider().openAsynchronousSocketChannel(null));
      channel.close();
      Completion<Void> refused = new Completion<>();
      channel.connect(ANY_PORT, null, refused);
      refused.awaitFailure("connect");
      assertTrue(OwnThreads.MADE.contains(refused.thread), refused.thread::toString);
    } finally {
      System.clearProperty(name);
    }
  }

  @Test
  void propertiesOfTheDefaultPoolAreChecked() {
    for (String property : List.of("threadFactory", "initialSize")) {
      String name = "java.nio.channels.DefaultThreadPool." + property;
      System.setProperty(name, "none");
      try {
        Error error =
            assertThrows(
                Error.class, () -> new BatonProvider().openAsynchronousSocketChannel(null));
        assertTrue(error.getMessage().contains(name), error.getMessage());
      } finally {
        System.clearProperty(name);
      }
    }
  }

  @Test
  void aWriteMovesAWholeBuffer() throws IOException {
    Pair pair = pair(null);
    byte[] data = pattern(5_000_000);
    Future<Integer> write = pair.near().write(ByteBuffer.wrap(data));
    assertArrayEquals(data, readExactly(pair.far(), data.length));
    assertEquals(data.length, get(write));
  }

  @Test
  void bouncedBytesNeedNoDirectMemory() throws Exception {
    // The tests run with 32 MiB of direct memory; this moves five times as much.
    ExecutorService threads = Executors.newFixedThreadPool(4);
    List<Future<?>> movers = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      Pair pair = pair(null);
      movers.add(threads.submit(() -> exchange(pair, 40)));
    }
    for (Future<?> mover : movers) {
      get(mover);
    }
    threads.shutdown();
  }

  private static void exchange(Pair pair, int rounds) {
    byte[] data = pattern(1 << 20);
    for (int round = 0; round < rounds; round++) {
      ByteBuffer[] halves = {ByteBuffer.wrap(data, 0, 600_000), ByteBuffer.wrap(data)};
      halves[1].position(600_000);
      CompletableFuture<byte[]> arrived = new CompletableFuture<>();
      Thread reader = new Thread(() -> arrived.complete(readExactly(pair.far(), data.length)));
      reader.start();
      while (halves[1].hasRemaining()) {
        Completion<Long> write = new Completion<>();
        pair.near().write(halves, 0, 2, 0, TimeUnit.SECONDS, null, write);
        write.await("write");
      }
      assertArrayEquals(data, Patience.await(arrived, "the bytes"));
    }
  }
}
