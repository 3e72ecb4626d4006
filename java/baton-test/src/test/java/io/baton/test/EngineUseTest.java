package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.CloseReason;
import io.baton.Demultiplexor;
import io.baton.OpRead;
import io.baton.OperationCancelledException;
import io.baton.PooledBuffer;
import io.baton.StoppedException;
import io.baton.nio.NioEngineProvider;
import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import io.baton.test.Completion.What;
import io.baton.test.own.OwnEngineProvider;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** How the library uses an engine: wake-ups counted, a broken one, failed threads. */
class EngineUseTest {

  /** The test's own engine, watched, and broken on request. */
  private static final class Watched implements EngineProvider {
    final AtomicInteger waits = new AtomicInteger();
    final AtomicInteger wakes = new AtomicInteger();
    final AtomicInteger closes = new AtomicInteger();
    final AtomicInteger starts = new AtomicInteger();
    private final EngineProvider watched;
    volatile IOException failure;
    volatile OutOfMemoryError wakeFailure;

    /** What the lane waits for now, in nanoseconds; negative: a wake-up. */
    volatile long waiting;

    Watched() {
      this(new OwnEngineProvider());
    }

    Watched(EngineProvider watched) {
      this.watched = watched;
    }

    @Override
    public String name() {
      return "watched";
    }

    @Override
    public int priority() {
      return 0;
    }

    @Override
    public Throwable unavailabilityCause() {
      return null;
    }

    @Override
    public Engine open(EngineSettings settings) throws IOException {
      Engine engine = watched.open(new EngineSettings(0, 1, Map.of()));
      return (Engine)
          Proxy.newProxyInstance(
              Watched.class.getClassLoader(),
              new Class<?>[] {Engine.class},
              (proxy, method, arguments) -> {
                switch (method.getName()) {
                  case "await" -> waits.incrementAndGet();
                  case "wake" -> wakes.incrementAndGet();
                  case "close" -> closes.incrementAndGet();
                  case "start" -> starts.incrementAndGet();
                  default -> {}
                }
                if (failure != null && method.getName().equals("await")) {
                  throw failure;
                }
                if (wakeFailure != null && method.getName().equals("wake")) {
                  throw wakeFailure;
                }
                boolean waits = method.getName().equals("await");
                if (waits) {
                  waiting = (long) arguments[0];
                }
                try {
                  return method.invoke(engine, arguments);
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                } finally {
                  if (waits) {
                    waiting = 0;
                  }
                }
              });
    }
  }

  @Test
  void aWaitIsCutShortByOneWakeUpAtMost() throws Exception {
    Watched engine = new Watched();
    try (Demultiplexor demultiplexor = Demultiplexor.builder().engine(engine).threads(1).open()) {
      CountDownLatch release = new CountDownLatch(1);
      CompletableFuture<Void> busy = new CompletableFuture<>();
      demultiplexor.post(
          () -> {
            busy.complete(null);
            try {
              release.await();
            } catch (InterruptedException e) {
              throw new AssertionError(e);
            }
          });
      Patience.await(busy, "the post that blocks");
      int before = engine.wakes.get();
      CountDownLatch ran = new CountDownLatch(10_000);
      for (int i = 0; i < 10_000; i++) {
        demultiplexor.post(ran::countDown);
      }
      assertEquals(before, engine.wakes.get(), "a lane that is awake needs no wake-up");
      release.countDown();
      Patience.await(ran, "the last post");
      for (int i = 0; i < 1000; i++) {
        CompletableFuture<Void> one = new CompletableFuture<>();
        demultiplexor.post(() -> one.complete(null));
        Patience.await(one, "a post");
      }
      assertTrue(
          engine.wakes.get() <= engine.waits.get(),
          () -> engine.wakes + " wake-ups for " + engine.waits + " waits");
    }
    assertEquals(1, engine.closes.get());
  }

  @Test
  void dataThatNobodyReadsKeepsNoLaneBusy() throws Exception {
    Watched engine = new Watched(new NioEngineProvider());
    Recorder recorder = new Recorder();
    try (Demultiplexor demultiplexor = Demultiplexor.builder().engine(engine).threads(1).open();
        EngineContract.Connection connection = EngineContract.connected(demultiplexor, recorder)) {
      // A read that waits has the engine look at the socket.
      connection.channel().read(ByteBuffer.allocate(1));
      EngineContract.onLane(connection.channel(), () -> {});
      connection.peer().getOutputStream().write(new byte[100]);
      recorder.nextGood(What.READ);
      // The lane sleeps now, or as soon as it has seen the rest once.
      for (int i = 0; i < 3; i++) {
        EngineContract.onLane(connection.channel(), () -> {});
      }
      int before = engine.waits.get();
      while (engine.waiting >= 0) {
        Thread.onSpinWait();
      }
      for (int i = 0; i < 1000; i++) {
        EngineContract.onLane(connection.channel(), () -> {});
      }
      int waits = engine.waits.get() - before;
      assertTrue(waits <= 2000 + 3, () -> waits + " waits for 1000 posts");
    }
  }

  @Test
  void aBrokenEngineEndsEverythingWithItsReason() throws Exception {
    Watched engine = new Watched();
    ConcurrentLinkedQueue<Throwable> reported = new ConcurrentLinkedQueue<>();
    Demultiplexor demultiplexor =
        Demultiplexor.builder().engine(engine).threads(1).exceptionHandler(reported::add).open();
    Recorder recorder = new Recorder();
    try (EngineContract.Connection connection = EngineContract.connected(demultiplexor, recorder)) {
      AsynchChannel channel = connection.channel();
      channel.read(ByteBuffer.allocate(1));
      channel.write(ByteBuffer.allocate(8 << 20));
      channel.write(ByteBuffer.allocate(1));
      EngineContract.onLane(channel, () -> {});
      IOException failure = new IOException("broken by the test");
      // On the lane, which is not inside a wait then.
      channel.post(() -> engine.failure = failure);
      Patience.await(demultiplexor.terminated(), "the end");
      for (int i = 0; i < 3; i++) {
        Completion one = recorder.nextAny();
        assertTrue(one.what() == What.READ || one.what() == What.WRITE, one::toString);
        assertTrue(one.error() instanceof IOException, one::toString);
      }
      Completion closed = recorder.next(What.CLOSED);
      assertEquals(CloseReason.ENGINE_FAILED, closed.reason());
      assertSame(failure, closed.error());
      assertEquals(1, reported.size());
      assertSame(failure, reported.peek().getCause());
      assertThrows(StoppedException.class, () -> demultiplexor.post(() -> {}));
      assertEquals(1, engine.closes.get());
    }
  }

  @Test
  void anEngineThatIsBrokenFromTheBeginningEndsEverything() throws Exception {
    Watched engine = new Watched();
    engine.failure = new IOException("broken by the test");
    ConcurrentLinkedQueue<Throwable> reported = new ConcurrentLinkedQueue<>();
    Demultiplexor demultiplexor =
        Demultiplexor.builder()
            .engine(engine)
            .threads(2)
            .exceptionHandler(reported::add)
            .threadFactory(
                lane ->
                    new Thread(lane) {
                      @Override
                      public void start() {
                        super.start();
                        Patience.await(this);
                      }
                    })
            .open();
    Patience.await(demultiplexor.terminated(), "the end");
    demultiplexor.close();
    assertEquals(2, engine.closes.get());
    reported.forEach(one -> assertSame(engine.failure, one.getCause()));
  }

  /** Keeps the block of every read. */
  private static final class Keeper extends Recorder {
    final LinkedBlockingQueue<PooledBuffer> kept = new LinkedBlockingQueue<>();

    @Override
    public void onReadCompleted(OpRead opRead) throws Exception {
      if (opRead.getError() == null) {
        kept.add(opRead.takePooled());
      }
      super.onReadCompleted(opRead);
    }
  }

  @Test
  void aNewReadTakesNoBlockThatAnotherWaitsFor() throws Exception {
    Keeper keeper = new Keeper();
    // This engine tries a read when it is started.
    try (Demultiplexor demultiplexor =
            Demultiplexor.builder().engine("nio").threads(1).pooledBuffersMax(1).open();
        EngineContract.Connection first = EngineContract.connected(demultiplexor, keeper);
        EngineContract.Connection second = EngineContract.connected(demultiplexor, keeper);
        EngineContract.Connection third = EngineContract.connected(demultiplexor, keeper)) {
      first.channel().readPooled();
      first.peer().getOutputStream().write('1');
      keeper.nextGood(What.READ);
      second.peer().getOutputStream().write('2');
      third.peer().getOutputStream().write('3');
      second.channel().readPooled();
      EngineContract.onLane(
          third.channel(),
          () -> {
            keeper.kept.remove().close();
            third.channel().readPooled();
          });
      assertEquals("2", keeper.nextGood(What.READ).text());
      keeper.kept.remove().close();
      assertEquals("3", keeper.nextGood(What.READ).text());
    }
  }

  @Test
  void aBlockThatIsGivenBackByAHandlerStartsNoReadInside() throws Exception {
    Watched engine = new Watched();
    Keeper keeper = new Keeper();
    try (Demultiplexor demultiplexor =
            Demultiplexor.builder().engine(engine).threads(1).pooledBuffersMax(1).open();
        EngineContract.Connection first = EngineContract.connected(demultiplexor, keeper);
        EngineContract.Connection second = EngineContract.connected(demultiplexor, keeper)) {
      first.channel().readPooled();
      first.peer().getOutputStream().write('a');
      keeper.nextGood(What.READ);
      second.peer().getOutputStream().write('b');
      second.channel().readPooled();
      EngineContract.onLane(second.channel(), () -> {});
      EngineContract.onLane(
          first.channel(),
          () -> {
            int before = engine.starts.get();
            keeper.kept.remove().close();
            assertEquals(before, engine.starts.get());
          });
      assertEquals("b", keeper.nextGood(What.READ).text());
    }
  }

  @Test
  void aStopThatFoundNoMemoryForItsWakeUpIsSeenWithTheNext() throws Exception {
    Watched engine = new Watched();
    Demultiplexor demultiplexor = Demultiplexor.builder().engine(engine).threads(1).open();
    EngineContract.onLane(demultiplexor.openDatagram(new Recorder()), () -> {});
    // A lane that is on its way would see the stop by itself.
    while (engine.waiting >= 0) {
      Thread.onSpinWait();
    }
    engine.wakeFailure = new OutOfMemoryError("of the test");
    Thread first = new Thread(demultiplexor::close);
    first.start();
    // It pauses between its tries, and waits for the end when it has given up.
    while (first.getState() != Thread.State.WAITING) {
      Thread.onSpinWait();
    }
    engine.wakeFailure = null;
    Thread second = new Thread(demultiplexor::close);
    second.start();
    Patience.await(demultiplexor.terminated(), "the end");
    Patience.await(first);
    Patience.await(second);
  }

  @Test
  void aThreadFactoryThatFailsLeavesNoThreads() {
    ConcurrentLinkedQueue<Thread> made = new ConcurrentLinkedQueue<>();
    var refused =
        assertThrows(
            IllegalStateException.class,
            () ->
                Demultiplexor.builder()
                    .threads(3)
                    .threadFactory(
                        lane -> {
                          if (made.size() == 2) {
                            return null;
                          }
                          Thread thread = new Thread(lane);
                          made.add(thread);
                          return thread;
                        })
                    .open());
    assertTrue(refused.getMessage().startsWith("threadFactory"));
    assertFalse(made.isEmpty());
    made.forEach(Patience::await);
  }

  @Test
  void aPoolThatIsEmptyIsToldOnce() throws Exception {
    LinkedBlockingQueue<String> warnings = new LinkedBlockingQueue<>();
    Logger logger = Logger.getLogger("io.baton");
    Handler collecting =
        new Handler() {
          @Override
          public void publish(LogRecord message) {
            warnings.add(message.getMessage());
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Recorder forgetful =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            if (opRead.getError() == null) {
              opRead.takePooled();
            }
            super.onReadCompleted(opRead);
          }
        };
    logger.addHandler(collecting);
    try (Demultiplexor demultiplexor =
            Demultiplexor.builder().engine("nio").threads(1).pooledBuffersMax(1).open();
        EngineContract.Connection connection = EngineContract.connected(demultiplexor, forgetful)) {
      AsynchChannel channel = connection.channel();
      connection.peer().getOutputStream().write('a');
      channel.readPooled();
      forgetful.nextGood(What.READ);
      connection.peer().getOutputStream().write('a');
      long waiting = channel.readPooled();
      String warning = warnings.poll(Patience.PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
      assertTrue(warning.contains("pooled_buffers_max"), warning);
      channel.cancel(waiting);
      forgetful.nextFailed(What.READ, OperationCancelledException.class);
      channel.readPooled();
      EngineContract.onLane(channel, () -> {});
      EngineContract.onLane(channel, () -> {});
    } finally {
      logger.removeHandler(collecting);
    }
    assertTrue(warnings.isEmpty(), warnings::toString);
  }
}
