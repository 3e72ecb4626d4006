package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.CloseReason;
import io.baton.Demultiplexor;
import io.baton.OpClose;
import io.baton.OpRead;
import io.baton.OpTimeout;
import io.baton.OpWrite;
import io.baton.OperationCancelledException;
import io.baton.OperationTimedOutException;
import io.baton.StoppedException;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Timers, deadlines and idle time-outs. No test looks at how long anything took. */
public abstract class TimeContract extends EngineContract {
  private static final Duration SOON = Duration.ofMillis(5);
  private static final Duration NEVER = Duration.ofDays(1_000_000);

  @Test
  void aTimerComesOnce() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      long number = connection.channel().startTimer(SOON);
      Completion timer = recorder.nextGood(What.TIMEOUT);
      assertEquals(number, timer.activation());
      assertEquals(OpTimeout.Kind.TIMER, timer.timeout());
      connection.channel().startTimer(Duration.ZERO);
      recorder.nextGood(What.TIMEOUT);
    }
  }

  @Test
  void timersComeInTheOrderOfTheirTimes() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      long[] numbers = new long[50];
      // Between which times each is due: the lane may be held up between two starts.
      long[] earliest = new long[numbers.length];
      long[] latest = new long[numbers.length];
      // In one go, so that the lane expires them from one heap.
      onLane(
          channel,
          () -> {
            for (int i = 0; i < numbers.length; i++) {
              int late = i * 7 % numbers.length;
              Duration time = Duration.ofMillis(50 + late);
              earliest[late] = System.nanoTime() + time.toNanos();
              numbers[late] = channel.startTimer(time);
              latest[late] = System.nanoTime() + time.toNanos();
            }
          });
      long before = earliest[0];
      for (int i = 0; i < numbers.length; i++) {
        long number = recorder.nextGood(What.TIMEOUT).activation();
        int late = 0;
        while (numbers[late] != number) {
          late++;
        }
        assertTrue(latest[late] - before >= 0, "timer " + late + " came late");
        before = Math.max(before, earliest[late]);
      }
    }
  }

  /** Counts the ends of timers by their errors. */
  private static final class EndsOfTimers implements AsynchHandler {
    final Set<Long> expired = ConcurrentHashMap.newKeySet();
    final Set<Long> cancelled = ConcurrentHashMap.newKeySet();
    final Set<Long> closed = ConcurrentHashMap.newKeySet();
    private final CountDownLatch due;
    private final CountDownLatch ends;

    EndsOfTimers(int timers, int dueSoon) {
      due = new CountDownLatch(dueSoon);
      ends = new CountDownLatch(timers);
    }

    @Override
    public void onTimeout(OpTimeout opTimeout) {
      Throwable error = opTimeout.getError();
      boolean first =
          (error == null
                  ? expired
                  : error instanceof OperationCancelledException ? cancelled : closed)
              .add(opTimeout.getActivation());
      if (first) {
        ends.countDown();
      }
      if (error == null) {
        due.countDown();
      }
    }
  }

  @Test
  void manyTimersOfOneChannelEndOnceEach() throws Exception {
    int third = 1_000;
    EndsOfTimers ends = new EndsOfTimers(3 * third, third);
    try (Demultiplexor large = builder().operationsMax(3 * third).open()) {
      AsynchChannel channel = large.openStream(ends);
      List<Long> toCancel = new ArrayList<>();
      Set<Long> toExpire = new HashSet<>();
      for (int i = 0; i < third; i++) {
        toCancel.add(channel.startTimer(NEVER));
        // The later ones are due earlier.
        toExpire.add(channel.startTimer(SOON.plusNanos(1_000L * (third - i))));
        channel.startTimer(NEVER);
      }
      Collections.shuffle(toCancel, new Random(1));
      for (long number : toCancel) {
        assertTrue(channel.cancel(number));
      }
      Patience.await(ends.due, "the timers that are due");
      channel.close();
      Patience.await(ends.ends, "the ends of all timers");
      assertEquals(toExpire, ends.expired);
      assertEquals(new HashSet<>(toCancel), ends.cancelled);
      assertEquals(third, ends.closed.size());
    }
  }

  @Test
  void aCancelledTimerCompletesByItsError() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      long number = connection.channel().startTimer(NEVER);
      assertTrue(connection.channel().cancel(number));
      recorder.nextFailed(What.TIMEOUT, OperationCancelledException.class);
    }
  }

  @Test
  void aDeadlineEndsAReadAndTheNextOneIsGood() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.channel().read(ByteBuffer.allocate(10), SOON);
      recorder.nextFailed(What.READ, OperationTimedOutException.class);
      connection.channel().read(ByteBuffer.allocate(10), NEVER);
      connection.peer().getOutputStream().write(bytes("late"));
      assertEquals("late", recorder.nextGood(What.READ).text());
    }
  }

  @Test
  void aDeadlineEndsEveryKindOfReadAndAConnect() throws Exception {
    Recorder recorder = new Recorder();
    try (FullListener full = new FullListener();
        Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      channel.readExactly(ByteBuffer.allocate(10), SOON);
      recorder.nextFailed(What.READ, OperationTimedOutException.class);
      channel.readUntil(ByteBuffer.allocate(10), bytes(";"), SOON);
      recorder.nextFailed(What.READ, OperationTimedOutException.class);
      channel.readPooled(SOON);
      recorder.nextFailed(What.READ, OperationTimedOutException.class);
      AsynchChannel late = demultiplexor.openStream(recorder);
      late.connect(full.address(), SOON);
      recorder.nextFailed(What.CONNECT, OperationTimedOutException.class);
    }
  }

  @Test
  void aDeadlineTellsWhatWasMoved() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.peer().getOutputStream().write(bytes("half"));
      connection.channel().readExactly(ByteBuffer.allocate(8), Duration.ofMillis(200));
      Completion half = recorder.nextFailed(What.READ, OperationTimedOutException.class);
      assertEquals("half", half.text());
      int much = 32 << 20;
      connection.channel().write(ByteBuffer.allocate(much), SOON);
      Completion cut = recorder.nextFailed(What.WRITE, OperationTimedOutException.class);
      assertTrue(cut.bytes() > 0 && cut.bytes() < much, cut::toString);
    }
  }

  @Test
  void aDeadlineCountsFromTheStartAlsoInTheQueue() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      long first = connection.channel().read(ByteBuffer.allocate(1));
      long second = connection.channel().read(ByteBuffer.allocate(1), SOON);
      assertEquals(
          second, recorder.nextFailed(What.READ, OperationTimedOutException.class).activation());
      connection.peer().getOutputStream().write('a');
      assertEquals(first, recorder.nextGood(What.READ).activation());
    }
  }

  @Test
  void anIdleChannelIsToldAgainAndAgain() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.channel().setReadIdleTimeout(SOON);
      for (int i = 0; i < 3; i++) {
        assertEquals(OpTimeout.Kind.READ_IDLE, recorder.nextGood(What.TIMEOUT).timeout());
      }
      connection.channel().setReadIdleTimeout(Duration.ZERO);
      connection.channel().setWriteIdleTimeout(SOON);
      Completion idle = recorder.nextGood(What.TIMEOUT);
      while (idle.timeout() == OpTimeout.Kind.READ_IDLE) {
        idle = recorder.nextGood(What.TIMEOUT);
      }
      assertEquals(OpTimeout.Kind.WRITE_IDLE, idle.timeout());
    }
  }

  @Test
  void anIdleChannelIsClosedWhereTheHandlerDoesNotCare() throws Exception {
    CompletableFuture<CloseReason> closed = new CompletableFuture<>();
    AsynchHandler handler =
        new AsynchHandler() {
          @Override
          public void onClosed(OpClose opClose) {
            closed.complete(opClose.getReason());
          }
        };
    Recorder accepting = new Recorder(() -> handler);
    AsynchChannel listener = listener(accepting);
    try (Socket client = plainClient(listener)) {
      AsynchChannel server = accepting.nextGood(What.ACCEPT).accepted();
      server.setReadIdleTimeout(SOON);
      assertEquals(-1, client.getInputStream().read());
      assertEquals(CloseReason.IDLE, Patience.await(closed, "the close"));
    }
  }

  @Test
  void aClosedChannelIsNeverIdle() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel;
    try (Demultiplexor own = builder().open()) {
      channel = own.openStream(recorder);
      Patience.await(channel.futures().close(), "the close");
      channel.setReadIdleTimeout(Duration.ofNanos(1));
    }
    channel.setWriteIdleTimeout(Duration.ofNanos(1));
    recorder.next(What.CLOSED);
    assertEquals(0, recorder.waiting());
  }

  @Test
  void trafficKeepsAChannelFromBeingIdle() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      // On the lane, so that the first times cannot pass before the second ones replace them.
      onLane(
          channel,
          () -> {
            for (Duration time : new Duration[] {Duration.ofNanos(1), NEVER}) {
              channel.setWriteIdleTimeout(time);
              channel.setReadIdleTimeout(time);
            }
          });
      channel.write(buffer("x"));
      recorder.nextGood(What.WRITE);
      channel.setWriteIdleTimeout(Duration.ZERO);
      channel.setReadIdleTimeout(Duration.ZERO);
      channel.startTimer(SOON);
      assertEquals(OpTimeout.Kind.TIMER, recorder.nextGood(What.TIMEOUT).timeout());
    }
  }

  @Test
  void aLaneThatWasHeldUpTakesNoChannelForIdle() throws Exception {
    AtomicReference<AsynchChannel> served = new AtomicReference<>();
    Recorder recorder =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            super.onReadCompleted(opRead);
            // What is told now was decided before the byte was looked at.
            served.get().setReadIdleTimeout(Duration.ZERO);
          }
        };
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      served.set(channel);
      channel.read(ByteBuffer.allocate(10));
      onLane(
          channel,
          () -> {
            channel.setReadIdleTimeout(Duration.ofMillis(30));
            connection.peer().getOutputStream().write('x');
            // Longer than the idle time; the byte is there all the while.
            Thread.sleep(60);
          });
      assertEquals("x", recorder.nextGood(What.READ).text());
      channel.startTimer(SOON);
      assertEquals(OpTimeout.Kind.TIMER, recorder.nextGood(What.TIMEOUT).timeout());
    }
  }

  /** Notes when something was moved, and when the first time-out behind it came. */
  private static final class IdleRecorder extends Recorder {
    volatile long moved;
    volatile long told;

    @Override
    public void onReadCompleted(OpRead opRead) throws Exception {
      moved = System.nanoTime();
      super.onReadCompleted(opRead);
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) throws Exception {
      moved = System.nanoTime();
      super.onWriteCompleted(opWrite);
    }

    @Override
    public void onTimeout(OpTimeout opTimeout) throws Exception {
      told = moved == 0 || told != 0 ? told : System.nanoTime();
      super.onTimeout(opTimeout);
    }
  }

  @Test
  void aReadIdleTimeCountsFromTheLastByte() throws Exception {
    idleTimeCountsFromTheLastByte(What.READ);
  }

  @Test
  void aWriteIdleTimeCountsFromTheLastByte() throws Exception {
    idleTimeCountsFromTheLastByte(What.WRITE);
  }

  private void idleTimeCountsFromTheLastByte(What what) throws Exception {
    Duration time = Duration.ofMillis(20);
    Duration half = time.dividedBy(2);
    IdleRecorder recorder = new IdleRecorder();
    try (Demultiplexor one = builder().threads(1).open();
        Connection connection = connected(one, recorder)) {
      AsynchChannel channel = connection.channel();
      Consumer<Duration> set =
          what == What.READ ? channel::setReadIdleTimeout : channel::setWriteIdleTimeout;
      long[] begin = new long[1];
      int good = 0;
      while (good < 2) {
        onLane(
            channel,
            () -> {
              recorder.moved = 0;
              recorder.told = 0;
              if (what == What.READ) {
                channel.read(ByteBuffer.allocate(1));
              }
              begin[0] = System.nanoTime();
              set.accept(time);
            });
        long sent = System.nanoTime() + half.toNanos();
        one.schedule(half, () -> move(connection, what));
        Completion next = recorder.nextAny();
        while (next.what() == What.TIMEOUT) {
          next = recorder.nextAny();
        }
        recorder.nextGood(What.TIMEOUT);
        onLane(channel, () -> set.accept(Duration.ZERO));
        onLane(channel, () -> {});
        while (recorder.waiting() > 0) {
          recorder.next(What.TIMEOUT);
        }
        // On a busy machine the time may be over before the byte, and then nothing is proved.
        if (recorder.moved - begin[0] < time.toNanos()) {
          assertTrue(recorder.told - sent >= time.toNanos(), "told too early");
          good++;
        }
      }
    }
  }

  private static void move(Connection connection, What what) {
    if (what == What.WRITE) {
      connection.channel().write(buffer("b"));
      return;
    }
    try {
      connection.peer().getOutputStream().write('a');
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void aChannelWithAsManyOperationsAsItMayHaveIsNotToldThatItIsIdle() throws Exception {
    Recorder recorder = new Recorder();
    try (Demultiplexor one = builder().threads(1).operationsMax(1).open();
        Connection connection = connected(one, recorder)) {
      AsynchChannel channel = connection.channel();
      // The handler of the connect has returned.
      onLane(channel, () -> {});
      channel.read(ByteBuffer.allocate(1));
      channel.setReadIdleTimeout(Duration.ofNanos(1));
      Patience.await(one.schedule(SOON, () -> {}), "a later time");
      channel.setReadIdleTimeout(Duration.ZERO);
      connection.peer().getOutputStream().write('a');
      recorder.nextGood(What.READ);
      assertEquals(0, recorder.waiting());
    }
  }

  @Test
  void aTimerThatIsCancelledLeavesTheOthersInTheirOrder() throws Exception {
    Recorder recorder = new Recorder();
    try (Demultiplexor one = builder().threads(1).open()) {
      AsynchChannel channel = one.openStream(recorder);
      Set<Long> due = new HashSet<>();
      // The heap has them in this order. The last one takes the place of the fourth, whose parent
      // is the second.
      onLane(
          channel,
          () -> {
            due.add(channel.startTimer(Duration.ofMillis(1)));
            channel.startTimer(Duration.ofDays(1));
            due.add(channel.startTimer(Duration.ofMillis(2)));
            long cancelled = channel.startTimer(NEVER);
            channel.startTimer(NEVER);
            due.add(channel.startTimer(Duration.ofMillis(3)));
            due.add(channel.startTimer(Duration.ofMillis(4)));
            assertTrue(channel.cancel(cancelled));
            // These take the places of those that are over.
            for (int i = 0; i < 8; i++) {
              channel.startTimer(NEVER);
            }
          });
      recorder.nextFailed(What.TIMEOUT, OperationCancelledException.class);
      while (!due.isEmpty()) {
        assertTrue(due.remove(recorder.nextGood(What.TIMEOUT).activation()));
      }
    }
  }

  @Test
  void workThatIsCancelledWhenItIsDueDoesNotRun() throws Exception {
    try (Demultiplexor one = builder().threads(1).open()) {
      CountDownLatch goOn = held(one);
      CompletableFuture<CompletableFuture<Void>> second = new CompletableFuture<>();
      CompletableFuture<Void> first =
          one.schedule(
              Duration.ZERO, () -> second.thenAccept(action -> action.cancel(false)).join());
      AtomicBoolean ran = new AtomicBoolean();
      second.complete(one.schedule(Duration.ZERO, () -> ran.set(true)));
      goOn.countDown();
      Patience.await(first, "the first");
      Patience.await(one.schedule(Duration.ZERO, () -> {}), "the last");
      assertFalse(ran.get());
    }
  }

  private WeakReference<Object> scheduledAndCancelled() {
    Object used = new Object();
    assertTrue(demultiplexor.schedule(NEVER, used::hashCode).cancel(false));
    return new WeakReference<>(used);
  }

  @Test
  void workThatIsCancelledIsForgotten() {
    Patience.awaitForgotten(scheduledAndCancelled(), "what scheduled work has used");
  }

  private WeakReference<AsynchChannel> closedWithIdleTimes() throws Exception {
    AsynchChannel channel = demultiplexor.openStream(new Recorder());
    channel.setReadIdleTimeout(NEVER);
    channel.setWriteIdleTimeout(NEVER);
    Patience.await(channel.futures().close(), "the close");
    return new WeakReference<>(channel);
  }

  @Test
  void aClosedChannelIsForgottenWithItsIdleTimes() throws Exception {
    Patience.awaitForgotten(closedWithIdleTimes(), "a channel");
  }

  @Test
  void scheduledWorkRunsCanBeCancelledAndEndsWithTheLanes() throws Exception {
    CompletableFuture<Thread> ran = new CompletableFuture<>();
    Patience.await(
        demultiplexor.schedule(SOON, () -> ran.complete(Thread.currentThread())), "the time");
    assertTrue(ran.getNow(null) != Thread.currentThread());

    IllegalStateException mine = new IllegalStateException("thrown by the test");
    assertEquals(
        mine,
        Patience.awaitFailure(
            demultiplexor.schedule(
                SOON,
                () -> {
                  throw mine;
                }),
            "the action"));

    CompletableFuture<Void> cancelled =
        demultiplexor.schedule(NEVER, () -> ran.completeExceptionally(new AssertionError()));
    assertTrue(cancelled.cancel(false));
    CompletableFuture<Void> left = demultiplexor.schedule(NEVER, () -> {});
    demultiplexor.close();
    assertTrue(Patience.awaitFailure(left, "the action") instanceof StoppedException);
    assertFalse(ran.isCompletedExceptionally());
    assertNull(takeReported());
  }
}
