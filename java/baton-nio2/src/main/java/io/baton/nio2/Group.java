package io.baton.nio2;

import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import java.io.IOException;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.ShutdownChannelGroupException;
import java.nio.channels.spi.AsynchronousChannelProvider;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * A group of channels: one Demultiplexor, and the threads that run handlers.
 *
 * <p>Users are counted: every open channel, every handler that is due or running, and the program
 * until it calls {@link #shutdown}. The last user that leaves ends the group, in this order: the
 * lanes, which have no operation in flight then; the executor; the group is terminated.
 */
final class Group extends AsynchronousChannelGroup {
  /** In milliseconds. Nobody tells that an executor holds up a lane. */
  private static final long LOOK_AGAIN = 1;

  private final Handlers handlers;
  private final Demultiplexor demultiplexor;
  private final Set<GroupSocket> sockets = ConcurrentHashMap.newKeySet();
  private final AtomicInteger users = new AtomicInteger(1);
  private final CountDownLatch terminated = new CountDownLatch(1);

  private final AtomicBoolean shutdown = new AtomicBoolean();
  private volatile boolean shutdownNow;

  // Threads wait here for the close of a socket; `waiting` counts them.
  private final Object closes = new Object();
  private volatile int waiting;

  private Group(AsynchronousChannelProvider provider, Handlers handlers) throws IOException {
    super(provider);
    this.handlers = handlers;
    // The JVM needs memory for the first call of this, and a close must not be that call.
    new AtomicBoolean().getAndSet(true);
    DemultiplexorBuilder builder = Demultiplexor.builder();
    try {
      handlers.configure(builder);
      demultiplexor = builder.open();
    } catch (IOException | RuntimeException | Error e) {
      handlers.notOpened();
      throw e;
    }
    handlers.opened(this);
  }

  static Group fixed(AsynchronousChannelProvider provider, int threads, ThreadFactory factory)
      throws IOException {
    FirstThread made = new FirstThread(factory);
    // A lane waits inside the system, on one thread of the system, which a virtual one has not.
    return new Group(
        provider,
        threads == 1 && !made.isVirtual()
            ? new InlineHandlers(made)
            : PooledHandlers.fixed(threads, made));
  }

  static Group pooled(AsynchronousChannelProvider provider, ExecutorService executor)
      throws IOException {
    return new Group(provider, PooledHandlers.in(executor));
  }

  /** The default group. */
  static Group forAll(AsynchronousChannelProvider provider) throws IOException {
    return new Group(provider, PooledHandlers.forAll());
  }

  Demultiplexor demultiplexor() {
    return demultiplexor;
  }

  Handlers handlers() {
    return handlers;
  }

  // -- users -------------------------------------------------------------------------------------

  /** A channel is about to be opened; {@link #leave} takes it back. */
  void enterNew() {
    if (shutdown.get() || !enter()) {
      throw new ShutdownChannelGroupException();
    }
  }

  private boolean enter() {
    int before = users.get();
    while (before > 0 && !users.compareAndSet(before, before + 1)) {
      before = users.get();
    }
    return before > 0;
  }

  void leave() {
    if (users.decrementAndGet() == 0) {
      demultiplexor.stop(Duration.ZERO).thenRun(this::lanesEnded);
    }
  }

  private void lanesEnded() {
    try {
      handlers.end();
    } catch (RuntimeException e) {
      // For example that of an application server, which does not permit it.
      System.getLogger("io.baton")
          .log(System.Logger.Level.WARNING, "the executor of a group refused to shut down", e);
    } finally {
      terminated.countDown();
    }
  }

  /** Has a handler called, by a thread of the group. */
  void dispatch(Pending<?, ?> completed) {
    handlers.dispatch(completed);
  }

  /**
   * The group is not to end before {@link Pending#tellAndLeave}.
   *
   * @param move brings a completion to the thread that calls it
   * @throws ShutdownChannelGroupException if the group has terminated
   */
  void moveOn(Pending<?, ?> completed, Consumer<Pending<?, ?>> move) {
    if (!enter()) {
      throw new ShutdownChannelGroupException();
    }
    try {
      move.accept(completed);
    } catch (RuntimeException | Error e) {
      leave();
      throw e;
    }
  }

  // -- sockets -----------------------------------------------------------------------------------

  void opened(GroupSocket socket) {
    sockets.add(socket);
    // Either shutdownNow has seen it, or this sees the shutdown.
    if (shutdownNow) {
      socket.close();
    }
  }

  void closed(GroupSocket socket) {
    sockets.remove(socket);
    wakeWaiting();
    leave();
  }

  /**
   * Waits until the descriptor is free, so that a port can be bound again and buffers are the
   * program's. A lane does its work meanwhile, and no thread waits for a lane that a handler or an
   * executor blocks: what it waits for may be this thread.
   */
  void awaitClosed(GroupSocket socket, boolean byCaller) {
    if (handlers.isLane()) {
      if (byCaller) {
        handlers.helpWhileClosing(socket);
      }
      return;
    }
    boolean interrupted = false;
    synchronized (closes) {
      waiting++;
      // In this set until its last operation is complete, too.
      while (sockets.contains(socket) && !handlers.laneIsBusy()) {
        try {
          closes.wait(LOOK_AGAIN);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
      waiting--;
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  void wakeWaiting() {
    // The number of waiting threads changes before they look, and what they look at changes before
    // this look: either they see it or this sees them.
    if (waiting > 0) {
      synchronized (closes) {
        closes.notifyAll();
      }
    }
  }

  // -- AsynchronousChannelGroup ------------------------------------------------------------------

  @Override
  public boolean isShutdown() {
    return shutdown.get();
  }

  @Override
  public boolean isTerminated() {
    return terminated.getCount() == 0;
  }

  @Override
  public void shutdown() {
    if (shutdown.compareAndSet(false, true)) {
      leave();
    }
  }

  @Override
  public void shutdownNow() {
    shutdownNow = true;
    shutdown();
    for (GroupSocket socket : sockets) {
      socket.close();
    }
  }

  @Override
  public boolean awaitTermination(long timeout, TimeUnit unit) throws InterruptedException {
    Check.notNull(unit, "unit");
    return terminated.await(timeout, unit);
  }
}
