package io.baton;

import io.baton.spi.Endpoint;
import io.baton.spi.Engine;
import io.baton.spi.Transfer;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;
import java.util.concurrent.ThreadFactory;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/**
 * A lane goes to sleep while another thread submits two tasks: it is not left asleep with a task,
 * and it is woken once at most. A sleep ends when the thread is back and has not woken the lane.
 */
@JCStressTest
@Outcome(id = "0, 0", expect = Expect.ACCEPTABLE, desc = "it saw a task, and did not sleep")
@Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "it saw a task after it had said so")
@Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "it slept, and was woken once")
@Outcome(id = "2, .*", expect = Expect.FORBIDDEN, desc = "left asleep")
@Outcome(expect = Expect.FORBIDDEN, desc = "woken more than once")
@State
public class LaneWakesRace {
  private static final Demultiplexor HOME;
  private static final VarHandle ENGINE;
  private static final int AWAKE = 0;
  private static final int SLEPT = 1;
  private static final int LEFT_ASLEEP = 2;

  static {
    try {
      // It must not keep the JVM of the race alive.
      ThreadFactory daemons =
          task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
          };
      HOME = Demultiplexor.builder().engine("nio").threads(1).threadFactory(daemons).open();
      ENGINE =
          MethodHandles.privateLookupIn(Lane.class, MethodHandles.lookup())
              .findVarHandle(Lane.class, "engine", Engine.class);
    } catch (Exception e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** Sleeps by looking. */
  private final class Sleep implements Engine {
    @Override
    public void await(long nanoseconds) {
      if (nanoseconds == 0) {
        return;
      }
      slept = SLEPT;
      while (wakes == 0) {
        // A submit wakes before it is back.
        if (isBack && wakes == 0) {
          slept = LEFT_ASLEEP;
          return;
        }
        Thread.onSpinWait();
      }
    }

    @Override
    public synchronized void wake() {
      wakes++;
    }

    @Override
    public Endpoint adopt(SelectableChannel channel) {
      throw new AssertionError();
    }

    @Override
    public Endpoint open(Endpoint.Kind kind) {
      throw new AssertionError();
    }

    @Override
    public void check(ByteBuffer buffer) {
      throw new AssertionError();
    }

    @Override
    public void start(Transfer transfer) {
      throw new AssertionError();
    }

    @Override
    public void cancel(Transfer transfer) {
      throw new AssertionError();
    }

    @Override
    public void close() {}
  }

  private final Lane lane = new Lane(HOME, 0);
  private volatile int wakes;
  private volatile boolean isBack;
  private int slept = AWAKE;

  /** A lane of one turn. */
  public LaneWakesRace() {
    ENGINE.set(lane, new Sleep());
  }

  @Actor
  public void lane(II_Result result) {
    lane.turn();
    result.r1 = slept;
  }

  @Actor
  public void other() {
    lane.submit(() -> {});
    lane.submit(() -> {});
    isBack = true;
  }

  @Arbiter
  public void count(II_Result result) {
    result.r2 = wakes;
  }
}
