package io.baton.nio2;

import io.baton.DemultiplexorBuilder;
import io.baton.StoppedException;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * Handlers run in an executor, so they may block. Lanes run no code of the program: what the
 * executor refuses, or hands back to its caller, goes to a spare thread. An operation that is done
 * at once, and was started by a handler of this group, has its own handler called inside, as with
 * the JDK.
 */
final class PooledHandlers implements Handlers {
  /** A lane that finds no memory for a thread tries so often, with pauses: for 10 seconds. */
  private static final int TRIES = 1000;

  private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(10);

  /** Handlers inside handlers: as many as the JDK calls. */
  private static final int NESTED_MAX = 16;

  /** A lane that is so long in the executor may be waiting there. */
  private static final long MOMENT = TimeUnit.MILLISECONDS.toNanos(1);

  private final ExecutorService executor;
  private final boolean own;
  private final boolean forAll;
  private final int lanes;
  private final Consumer<Pending<?, ?>> execute = this::execute;
  private final Consumer<Pending<?, ?>> toLane = this::toLane;
  private final List<LaneThread> laneThreads = new CopyOnWriteArrayList<>();
  private Group group;

  /** Completed ones, which the executor has, too. */
  private final ConcurrentLinkedQueue<Accept<?>> accepts = new ConcurrentLinkedQueue<>();

  private PooledHandlers(ExecutorService executor, boolean own, boolean forAll, int lanes) {
    this.executor = executor;
    this.own = own;
    this.forAll = forAll;
    this.lanes = lanes;
  }

  static PooledHandlers in(ExecutorService executor) {
    return new PooledHandlers(executor, false, false, processors());
  }

  /** Those of the default group, see {@link DefaultPool}. */
  static PooledHandlers forAll() {
    return new PooledHandlers(DefaultPool.open(), true, true, processors());
  }

  /** The threads are there from the beginning: they may have to keep the program alive. */
  static PooledHandlers fixed(int threads, ThreadFactory factory) {
    ThreadPoolExecutor pool =
        new ThreadPoolExecutor(
            threads, threads, 0, TimeUnit.NANOSECONDS, new LinkedBlockingQueue<>(), factory);
    try {
      if (pool.prestartAllCoreThreads() < threads) {
        throw new IllegalStateException("factory: made no thread");
      }
    } catch (RuntimeException | Error e) {
      pool.shutdown();
      throw e;
    }
    return new PooledHandlers(pool, true, false, Math.min(threads, processors()));
  }

  /** Lanes beyond the processors would gain nothing. */
  private static int processors() {
    return Runtime.getRuntime().availableProcessors();
  }

  @Override
  public void configure(DemultiplexorBuilder builder) {
    builder.threads(lanes).fromEnvironment().threadFactory(this::newLane);
  }

  private Thread newLane(Runnable work) {
    LaneThread lane = new LaneThread(work, forAll);
    laneThreads.add(lane);
    return lane;
  }

  @Override
  public void opened(Group opened) {
    group = opened;
  }

  @Override
  public void notOpened() {
    if (own) {
      executor.shutdown();
    }
  }

  @Override
  public void dispatch(Pending<?, ?> completed) {
    if (mayCallHere()) {
      call(completed);
    } else {
      group.moveOn(completed, own || isLane() ? execute : toLane);
    }
  }

  private boolean mayCallHere() {
    if (isLane()) {
      return false;
    }
    Calls calls = Calls.ofThisThread();
    return calls != null && calls.handlers == this && calls.depth < NESTED_MAX;
  }

  /** Calls the handler inside another one, for which the group waits. */
  private void call(Pending<?, ?> completed) {
    Calls calls = Calls.ofThisThread();
    calls.depth++;
    try {
      completed.tell();
    } finally {
      calls.depth--;
    }
  }

  /**
   * Only lanes enter an executor of the program: it may have them wait for room in its queue, which
   * its own threads make. If those waited there, too, nobody would.
   */
  private void toLane(Pending<?, ?> completed) {
    try {
      group.demultiplexor().post(() -> execute(completed));
    } catch (StoppedException e) {
      // The engine has failed, and the lanes are gone.
      execute(completed);
    }
  }

  private void execute(Pending<?, ?> completed) {
    completed.dispatcher = Thread.currentThread();
    LaneThread lane = Thread.currentThread() instanceof LaneThread one ? one : null;
    if (lane != null) {
      lane.inExecutorSince = System.nanoTime();
    }
    try {
      for (int left = lane != null ? TRIES : 1; !hasThread(completed, left); left--) {
        Thread.interrupted();
        LockSupport.parkNanos(PAUSE);
      }
    } finally {
      completed.dispatcher = null;
      if (lane != null) {
        lane.inExecutorSince = LaneThread.NOT_IN_EXECUTOR;
      }
    }
    if (completed instanceof Accept<?> accept) {
      mayOvertake(accept);
    }
  }

  /** False if it should be tried again, for lack of memory: the completion exists only here. */
  private boolean hasThread(Pending<?, ?> completed, int left) {
    try {
      executor.execute(completed);
      return true;
    } catch (RuntimeException | Error e) {
      // RejectedExecutionException, no memory for a thread, or a fault of the executor's own.
      return spareHas(completed, left);
    }
  }

  private static boolean spareHas(Pending<?, ?> completed, int left) {
    try {
      Spare.THREADS.execute(completed);
      return true;
    } catch (OutOfMemoryError e) {
      if (left > 1) {
        return false;
      }
      throw e;
    }
  }

  private void mayOvertake(Accept<?> accept) {
    try {
      accepts.add(accept);
    } catch (OutOfMemoryError e) {
      // Then it waits its turn: the executor has it.
      return;
    }
    // Either this sees that the executor was faster, or the executor's thread removes it.
    if (accept.hasGivenPlace()) {
      accepts.remove(accept);
    }
  }

  @Override
  public void arrived(Pending<?, ?> completed) {
    // A program inside a start is a dispatcher, too.
    if (isLane() || completed.dispatcher == Thread.currentThread()) {
      Spare.THREADS.execute(completed);
    } else if (completed.arrivesFirst()) {
      tell(completed);
    }
  }

  /**
   * Accepts go first: with many sessions the queue of the executor is long, and the next connection
   * waits until the program has got this one. A handler is overtaken once at most.
   */
  private void tell(Pending<?, ?> completed) {
    Calls calls = Calls.ofThisThread();
    if (calls == null) {
      tellInTurn(completed);
      return;
    }
    PooledHandlers outer = calls.handlers;
    int depth = calls.depth;
    calls.handlers = this;
    calls.depth = 1;
    try {
      tellInTurn(completed);
    } finally {
      calls.handlers = outer;
      calls.depth = depth;
    }
  }

  private void tellInTurn(Pending<?, ?> completed) {
    if (completed instanceof Accept<?> itself) {
      Pending<?, ?> inPlace = itself.inPlace();
      accepts.remove(itself);
      inPlace.tellAndLeave();
      return;
    }
    Accept<?> accept = accepts.poll();
    if (accept != null && accept.givePlace(completed)) {
      accept.tellAndLeave();
    } else {
      completed.tellAndLeave();
    }
  }

  @Override
  public boolean isLane() {
    return Thread.currentThread() instanceof LaneThread;
  }

  /** An executor may have it wait for room in its queue, which only the executor's threads make. */
  @Override
  public boolean laneIsBusy() {
    for (LaneThread lane : laneThreads) {
      if (lane.waitsInExecutor()) {
        return true;
      }
    }
    return false;
  }

  @Override
  public void helpWhileWaiting(Future<?> future, long nanoseconds) {}

  @Override
  public void helpWhileClosing(GroupSocket socket) {}

  @Override
  public void end() {
    executor.shutdown();
  }

  /** The handlers that a thread is inside. */
  private static final class Calls {
    private static final ThreadLocal<Calls> CALLS = ThreadLocal.withInitial(Calls::new);

    PooledHandlers handlers;
    int depth;

    /** Null if there is no memory for it. */
    static Calls ofThisThread() {
      try {
        return CALLS.get();
      } catch (OutOfMemoryError e) {
        return null;
      }
    }
  }

  private static final class LaneThread extends Thread {
    static final long NOT_IN_EXECUTOR = 0;

    /** By the nanoseconds of the system. */
    volatile long inExecutorSince = NOT_IN_EXECUTOR;

    LaneThread(Runnable lane, boolean forAll) {
      super(null, lane, "baton-nio2-lane", 0, !forAll);
      if (forAll) {
        setContextClassLoader(ClassLoader.getSystemClassLoader());
      }
      setDaemon(true);
    }

    /** Not for a moment only, for a lock, nor because the processors are busy. */
    boolean waitsInExecutor() {
      long since = inExecutorSince;
      return since != NOT_IN_EXECUTOR
          && System.nanoTime() - since > MOMENT
          && getState() != State.RUNNABLE;
    }
  }

  private static final class Spare {
    static final ExecutorService THREADS =
        Executors.newCachedThreadPool(DefaultPool.daemons("baton-nio2-spare"));
  }
}
