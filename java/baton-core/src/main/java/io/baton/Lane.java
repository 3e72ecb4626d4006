package io.baton;

import io.baton.spi.Engine;
import io.baton.spi.EngineSettings;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * One thread, its engine and its channels.
 *
 * <p>Other threads only push into the inbox. The first thread that finds the lane asleep wakes it:
 * a wait is cut short by one wake-up at most.
 */
final class Lane implements Runnable {
  // Handlers to run before the engine is polled again. A batch triggers follow-up operations:
  // a read, then a write, then a read. Polling in between would find sockets ready whose next
  // operation has not started yet.
  private static final int BATCH = 128;

  // Accepts take turns with the other tasks: so many tasks of theirs, then so many others. A server
  // that starts an accept in the handler of the last one would otherwise accept one connection for
  // each round through all its sessions.
  private static final int PIECE = 16;
  private static final int ACCEPT_PIECE = 8;

  /** A timer that found no memory tries again so much later. */
  private static final long MEMORY_PAUSE = TimeUnit.MILLISECONDS.toNanos(10);

  /** So often a thread tries to wake the lane without memory. */
  private static final int MEMORY_TRIES = 100;

  /** Small frames that take more of the stack than the library and the engine do in a turn. */
  private static final int TURN_FRAMES = 500;

  /** The same for a wake-up. */
  private static final int WAKE_FRAMES = 64;

  private static final VarHandle ASLEEP;

  static {
    try {
      ASLEEP = MethodHandles.lookup().findVarHandle(Lane.class, "asleep", boolean.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  final Demultiplexor demultiplexor;
  final TaskQueue<Task> ready = new TaskQueue<>();

  /** Tasks that found no memory, for the next turn, which comes after a pause at most. */
  private final TaskQueue<Task> again = new TaskQueue<>();

  /**
   * Accepts that are completed or come from other threads, and requests to cancel them. They have
   * their share of a turn.
   */
  final TaskQueue<Task> accepts = new TaskQueue<>();

  final TimerHeap timers = new TimerHeap();
  final BufferPool pool;

  /** The time of the last reading of the clock, which is read only while there are timers. */
  long now;

  final CompletableFuture<Void> opened = new CompletableFuture<>();

  private final int number;
  private final Inbox inbox = new Inbox();
  // Made before they are needed: there may be no memory for them then.
  private final Posted drainTask;
  private final Posted stopTask;
  // Operations whose starts broke off because the stack ended. Guarded by the lock, but for a look.
  final Object brokenLock = new Object();
  volatile Operation broken;
  private volatile boolean asleep;
  private Thread thread;
  private Engine engine;
  private volatile Throwable engineFailure;
  private boolean failureIsUntold;
  private ChannelCore channels;
  // The last phase of the Demultiplexor that the lane has seen.
  private int phase = Demultiplexor.RUNNING;
  private boolean draining;
  private boolean stopping;

  /** Only pieces of the program are left: they run, and no more of them are taken. */
  private volatile boolean ending;

  Lane(Demultiplexor demultiplexor, int number) {
    this.demultiplexor = demultiplexor;
    this.number = number;
    Settings settings = demultiplexor.settings;
    pool = new BufferPool(this, settings.pooledBufferSize(), settings.pooledBuffersMax());
    drainTask = new Posted(this, this::drain);
    stopTask = new Posted(this, this::stop);
  }

  // -- any thread --------------------------------------------------------------------------------

  boolean isCurrent() {
    return Thread.currentThread() == thread;
  }

  /**
   * For a thread that is about to change what the lane looks at: its stack may end now, but not in
   * the wake-up, which nobody would make again.
   */
  void requireStackToWake() {
    if (asleep) {
      requireStack(WAKE_FRAMES);
    }
  }

  /** False once the lane has ended; the task is not run then. */
  boolean submit(Task task) {
    requireStackToWake();
    return push(task);
  }

  /** The same behind requireStackToWake(). */
  boolean push(Task task) {
    if (!inbox.push(task)) {
      return false;
    }
    wakeIfAsleep();
    return true;
  }

  /** The same for a read that finds nothing to do before there is input. */
  boolean pushRead(Task read, ChannelCore core) {
    if (!inbox.push(read)) {
      return false;
    }
    // The push is ordered before these looks. If the engine does not watch for input any more, the
    // lane looks into its inbox after that change, and before it sleeps. A close that this thread
    // does not see here wakes the lane later; one that it sees may wait for this read.
    try {
      if (core.endpoint.wakesOnInput() && core.admission.isOpen() && !hasFailed()) {
        return true;
      }
    } catch (StackOverflowError e) {
      // The read is in the inbox: it must not look broken off.
    }
    wakeIfAsleep();
    return true;
  }

  /**
   * For a thread that has changed what the lane looks at before it sleeps: the inbox, or the phase
   * of the Demultiplexor. The change is ordered before this check, and the lane's mark that it
   * sleeps before its last look: either the lane sees the change or this thread sees the mark.
   */
  void wakeIfAsleep() {
    try {
      if (asleep && ASLEEP.compareAndSet(this, true, false)) {
        wake();
      }
    } catch (StackOverflowError e) {
      // The lane fell asleep behind requireStackToWake(). The next thread wakes it.
      asleep = true;
    } catch (OutOfMemoryError e) {
      // The change is made, and other lanes may have to be woken, as in a stop.
      wakeWithoutMemory();
    }
  }

  private void wake() {
    if (engineFailure == null) {
      engine.wake();
    } else {
      LockSupport.unpark(thread);
    }
  }

  private void wakeWithoutMemory() {
    for (int i = 0; i < MEMORY_TRIES; i++) {
      LockSupport.parkNanos(MEMORY_PAUSE);
      try {
        wake();
        return;
      } catch (OutOfMemoryError e) {
        // The next thread wakes it if this one does not.
        asleep = true;
      }
    }
  }

  /**
   * Runs something on the lane. False also while the lane ends: a program that posts again and
   * again, from inside or from another thread, would keep it from that.
   */
  boolean submit(Runnable action) {
    return !ending && submit(new Posted(this, action));
  }

  boolean hasFailed() {
    return engineFailure != null;
  }

  Engine engine() {
    return engine;
  }

  void report(Throwable error) {
    demultiplexor.report(error);
  }

  void startThread() {
    thread = demultiplexor.settings.threadFactory().newThread(this);
    if (thread == null) {
      throw new IllegalStateException("threadFactory: made no thread");
    }
    thread.start();
  }

  // -- the lane's thread -------------------------------------------------------------------------

  @Override
  public void run() {
    try {
      Settings settings = demultiplexor.settings;
      engine =
          demultiplexor.provider.open(
              new EngineSettings(number, settings.threads(), settings.engineWords()));
    } catch (Throwable e) {
      while (!tellOpener(e)) {
        // The JVM might need memory for the first call of another class.
        Thread.yield();
      }
      return;
    }
    opened.complete(null);
    do {
      // An interrupt was meant for the handler that ran; it would keep the wait from waiting.
      Thread.interrupted();
      try {
        turn(true);
      } catch (Throwable e) {
        // A lane that ended here would leave its channels silent for ever.
        report(e);
      }
    } while (!mayEnd());
    end();
  }

  private boolean mayEnd() {
    if (!stopping || channels != null) {
      return false;
    }
    ending = true;
    return ready.isEmpty() && again.isEmpty() && inbox.closeIfEmpty();
  }

  /** False for lack of memory. The thread that opens the Demultiplexor waits. */
  private boolean tellOpener(Throwable why) {
    try {
      opened.completeExceptionally(why);
      return true;
    } catch (OutOfMemoryError e) {
      return false;
    }
  }

  /** For a handler of this lane that has to wait. */
  void turn() {
    requireStack(TURN_FRAMES);
    turn(false);
  }

  /** The stack of a handler may end here, but not inside the engine, whose state would be lost. */
  private static int requireStack(int frames) {
    return frames == 0 ? 0 : 1 + requireStack(frames - 1);
  }

  /** Waits for work, and does it. outermost: no handler is running. */
  private void turn(boolean outermost) {
    if (failureIsUntold) {
      tellFailure();
    }
    if (broken != null) {
      mend();
    }
    await();
    int newPhase = demultiplexor.phase();
    while (!again.isEmpty()) {
      ready.add(again.poll());
    }
    inbox.moveTo(ready, accepts);
    if (newPhase != phase) {
      // Behind all that was submitted before.
      phase = newPhase;
      ready.add(newPhase == Demultiplexor.STOPPING ? stopTask : drainTask);
    }
    if (!timers.isEmpty()) {
      expire();
    }
    for (int i = 0; i < BATCH && hasReady(); i += PIECE) {
      run(accepts, ACCEPT_PIECE, outermost);
      run(ready, PIECE, outermost);
      // Other threads start accepts, too.
      inbox.moveTo(ready, accepts);
    }
    pool.serve();
  }

  private void mend() {
    Operation first;
    synchronized (brokenLock) {
      first = broken;
      broken = null;
    }
    for (Operation one = first; one != null; ) {
      Operation behind = one.nextBroken;
      one.nextBroken = null;
      try {
        one.channel.core.mend(one);
      } catch (Throwable e) {
        report(e);
      }
      one = behind;
    }
  }

  private boolean hasReady() {
    return !ready.isEmpty() || !accepts.isEmpty();
  }

  private void run(TaskQueue<Task> queue, int most, boolean outermost) {
    for (int i = 0; i < most; i++) {
      Task task = queue.poll();
      if (task == null) {
        break;
      }
      if (outermost) {
        // Nor is it meant for the next handler.
        Thread.interrupted();
      }
      try {
        task.run();
      } catch (Throwable e) {
        report(e);
      }
    }
  }

  private void expire() {
    now = System.nanoTime();
    for (Timed one = timers.pollExpired(now); one != null; one = timers.pollExpired(now)) {
      try {
        one.expired();
      } catch (OutOfMemoryError e) {
        // For its exception. The place in the heap is free still.
        one.deadline = now + MEMORY_PAUSE;
        timers.add(one);
      } catch (Throwable e) {
        report(e);
      }
    }
  }

  private void await() {
    boolean mayWait = !hasReady();
    if (mayWait) {
      asleep = true;
      mayWait = inbox.isEmpty() && broken == null && demultiplexor.phase() == phase;
    }
    try {
      long time = mayWait ? timeToWait() : 0;
      if (engineFailure == null) {
        engine.await(time);
      } else {
        // Files and tasks still complete.
        LockSupport.parkNanos(this, time < 0 ? Long.MAX_VALUE : time);
      }
    } catch (Throwable e) {
      engineFailed(e);
    }
    if (asleep) {
      asleep = false;
    }
  }

  private long timeToWait() {
    long most = again.isEmpty() ? Long.MAX_VALUE : MEMORY_PAUSE;
    if (!timers.isEmpty()) {
      most = Math.min(most, Math.max(0, timers.earliest() - System.nanoTime()));
    }
    return most == Long.MAX_VALUE ? -1 : most;
  }

  void start(ChannelTransfer transfer) {
    if (transfer.core.file != null) {
      transfer.core.file.start(transfer);
    } else if (engineFailure == null) {
      engine.start(transfer);
    } else {
      transfer.failed(engineFailure);
    }
  }

  void cancel(ChannelTransfer transfer) {
    engine.cancel(transfer);
  }

  /** telling: runs tellStopping() later if need be; null to do so here. */
  void add(ChannelCore core, Posted telling) {
    core.isListed = true;
    core.following = channels;
    if (channels != null) {
      channels.previous = core;
    }
    channels = core;
    if (stopping) {
      core.close(CloseReason.STOPPED, null);
    } else if (draining && telling != null) {
      ready.add(telling);
    } else if (draining) {
      drain(core);
    }
  }

  void remove(ChannelCore core) {
    if (core.previous == null) {
      channels = core.following;
    } else {
      core.previous.following = core.following;
    }
    if (core.following != null) {
      core.following.previous = core.previous;
    }
    // A program that keeps this channel must not keep its neighbours, and theirs.
    core.previous = null;
    core.following = null;
  }

  /** A graceful stop: listeners are closed, other channels get onStopping. */
  private void drain() {
    ChannelCore[] all;
    try {
      all = copyOfChannels();
    } catch (OutOfMemoryError e) {
      runAgain(drainTask);
      return;
    }
    draining = true;
    for (ChannelCore one : all) {
      drain(one);
    }
  }

  /** A handler may call Demultiplexor.turn, so that channels leave the list meanwhile. */
  private ChannelCore[] copyOfChannels() {
    int count = 0;
    for (ChannelCore one = channels; one != null; one = one.following) {
      count++;
    }
    ChannelCore[] all = new ChannelCore[count];
    ChannelCore one = channels;
    for (int i = 0; i < count; i++) {
      all[i] = one;
      one = one.following;
    }
    return all;
  }

  private static void drain(ChannelCore core) {
    if (core.isListener()) {
      core.close(CloseReason.STOPPED, null);
    } else {
      core.tellStopping();
    }
  }

  /** Closes everything; the lane ends when the last handler has run. */
  private void stop() {
    stopping = true;
    try {
      for (ChannelCore one = channels; one != null; one = one.following) {
        one.close(CloseReason.STOPPED, null);
      }
    } catch (OutOfMemoryError e) {
      // The JVM needs memory for what runs the first time.
      runAgain(stopTask);
    }
  }

  /** For a task that found no memory. */
  void runAgain(Task task) {
    again.add(task);
  }

  private void engineFailed(Throwable error) {
    engineFailure = error;
    failureIsUntold = true;
    tellFailure();
  }

  /** Lack of memory may end this, too; the next turn begins again. */
  private void tellFailure() {
    Throwable error = engineFailure;
    demultiplexor.stopNow();
    for (ChannelCore one = channels; one != null; one = one.following) {
      one.engineFailed(error);
    }
    failureIsUntold = false;
    try {
      report(new IOException("the engine of lane " + number + " failed: " + error, error));
    } catch (OutOfMemoryError e) {
      report(error);
    }
  }

  private void end() {
    for (Timed left = timers.pollAny(); left != null; left = timers.pollAny()) {
      if (left instanceof Posted posted) {
        abandon(posted);
      }
    }
    try {
      engine.close();
    } catch (Throwable e) {
      report(e);
    }
    demultiplexor.laneEnded();
  }

  private void abandon(Posted posted) {
    try {
      posted.abandon();
    } catch (OutOfMemoryError e) {
      timers.add(posted);
      LockSupport.parkNanos(MEMORY_PAUSE);
    } catch (Throwable e) {
      report(e);
    }
  }
}
