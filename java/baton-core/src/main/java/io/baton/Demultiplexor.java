package io.baton;

import io.baton.spi.Endpoint;
import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.channels.FileChannel;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;

/**
 * An engine and the threads that wait on it and call handlers: the Proactor.
 *
 * <p><b>Threads:</b> every method may be called by any thread, and from inside handlers, except
 * that {@link #close} waits for the threads only when it is called from outside of them. The
 * threads, called lanes, are the Demultiplexor's own; users write no pool (J-02). A channel stays
 * with one lane.
 *
 * <p><b>Ownership:</b> the code that opens a Demultiplexor closes it. Its threads keep the program
 * alive until then.
 */
public final class Demultiplexor implements AutoCloseable {
  static final int RUNNING = 0;
  static final int DRAINING = 1;
  static final int STOPPING = 2;

  final Settings settings;
  final EngineProvider provider;
  final LongAdder acceptBackOffs = new LongAdder();

  private final String explanation;
  private final FileWorkers fileWorkers;
  private final Lane[] lanes;
  private final AtomicInteger turn = new AtomicInteger();
  private final AtomicInteger phase = new AtomicInteger(RUNNING);
  private final AtomicInteger openChannels = new AtomicInteger();
  private final AtomicInteger lanesRunning;
  private final CompletableFuture<Void> terminated = new CompletableFuture<>();

  Demultiplexor(Settings settings, EngineProvider provider, String explanation) throws IOException {
    this.settings = settings;
    this.provider = provider;
    this.explanation = explanation;
    fileWorkers = new FileWorkers(settings);
    lanes = new Lane[settings.threads()];
    // Counted before they run: a lane whose engine fails at once ends while others are started.
    lanesRunning = new AtomicInteger(lanes.length);
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new Lane(this, i);
    }
    startLanes();
  }

  private void startLanes() throws IOException {
    try {
      for (Lane lane : lanes) {
        lane.startThread();
      }
      for (Lane lane : lanes) {
        lane.opened.join();
      }
    } catch (CompletionException e) {
      stopNow();
      throw new IOException(
          "the engine " + provider.name() + " could not be opened: " + e.getCause().getMessage(),
          e.getCause());
    } catch (RuntimeException | Error e) {
      stopNow();
      throw e;
    }
  }

  /**
   * Opens a Demultiplexor as the property {@code baton} or the variable {@code BATON} says. Without
   * them it has the best engine and a lane for each processor.
   *
   * @return a running one
   * @throws IOException if the engine cannot be opened, or refuses the value of a setting of its
   *     own
   * @throws IllegalArgumentException if the property or variable is wrong; the message says where
   */
  public static Demultiplexor open() throws IOException {
    return builder().fromEnvironment().open();
  }

  /**
   * For a Demultiplexor with other settings.
   *
   * @return with the default settings
   */
  public static DemultiplexorBuilder builder() {
    return new DemultiplexorBuilder();
  }

  // -- information --------------------------------------------------------------------------------

  /**
   * Name of the engine.
   *
   * @return for example {@code nio}
   */
  public String getEngine() {
    return provider.name();
  }

  /**
   * The choice and its sources, and the engines that are not available, with reasons.
   *
   * @return some lines of text
   */
  public String explain() {
    return explanation + engineForCalls().explain();
  }

  /**
   * Number of lanes.
   *
   * @return 1 or more
   */
  public int getThreads() {
    return lanes.length;
  }

  /**
   * Channels that are not closed yet.
   *
   * @return as of now
   */
  public int getOpenChannels() {
    return openChannels.get();
  }

  /**
   * The number of accepts that were delayed because the system lacked descriptors or memory.
   *
   * @return since the start
   */
  public long getAcceptBackOffs() {
    return acceptBackOffs.sum();
  }

  /**
   * Blocks that pooled reads have needed so far, in use or free.
   *
   * @return as of now, over all lanes
   */
  public int getPooledBuffers() {
    int sum = 0;
    for (Lane lane : lanes) {
      sum += lane.pool.allocated();
    }
    return sum;
  }

  // -- channels ----------------------------------------------------------------------------------

  /**
   * A listener.
   *
   * @param local where to listen; port 0 for a free one
   * @param handler of the listener
   * @return listening; start {@link AsynchChannel#accept}
   * @throws IOException if the system refuses
   */
  public AsynchChannel listen(SocketAddress local, AsynchHandler handler) throws IOException {
    Check.address(local, "local");
    return open(Endpoint.Kind.LISTENER, handler, channel -> channel.bind(local));
  }

  /**
   * A listener.
   *
   * @param host name or address of this machine
   * @param port 0 to 65535; 0 for a free one
   * @param handler of the listener
   * @return listening; start {@link AsynchChannel#accept}
   * @throws IOException if the system refuses
   */
  public AsynchChannel listen(String host, int port, AsynchHandler handler) throws IOException {
    return listen(Check.address(host, port), handler);
  }

  /**
   * Starts a connection, which completes by {@link AsynchHandler#onConnectCompleted}. Reads and
   * writes may be started at once.
   *
   * @param remote the peer's address
   * @param handler of the connection
   * @return the channel, which is connecting
   * @throws IOException if the system has no socket left
   */
  public AsynchChannel connect(SocketAddress remote, AsynchHandler handler) throws IOException {
    Check.address(remote, "remote");
    return open(Endpoint.Kind.STREAM, handler, channel -> channel.connect(remote));
  }

  /**
   * Starts a connection, as {@link #connect(SocketAddress, AsynchHandler)} does.
   *
   * @param host name or address of the peer; a name is looked up at once, which may block
   * @param port 0 to 65535
   * @param handler of the connection
   * @return the channel, which is connecting
   * @throws IOException if the system has no socket left
   */
  public AsynchChannel connect(String host, int port, AsynchHandler handler) throws IOException {
    return connect(Check.address(host, port), handler);
  }

  /**
   * A datagram channel.
   *
   * @param local where to receive; port 0 for a free one
   * @param handler of the channel
   * @return bound
   * @throws IOException if the system refuses
   */
  public AsynchChannel datagram(SocketAddress local, AsynchHandler handler) throws IOException {
    Check.address(local, "local");
    return open(Endpoint.Kind.DATAGRAM, handler, channel -> channel.bind(local));
  }

  /**
   * A file.
   *
   * @param path of the file
   * @param handler of the channel
   * @param options as for {@link FileChannel#open(Path, OpenOption...)}; opening may block
   * @return open
   * @throws IOException if the system refuses
   */
  public AsynchChannel file(Path path, AsynchHandler handler, OpenOption... options)
      throws IOException {
    Check.notNull(path, "path");
    Check.notNull(handler, "handler");
    Check.notNull(options, "options");
    FileChannel channel = FileChannel.open(path, options);
    try {
      return new AsynchChannel(this, handler, channel);
    } catch (RuntimeException | OutOfMemoryError e) {
      channel.close();
      throw e;
    }
  }

  /**
   * A stream that is neither bound nor connected.
   *
   * @param handler of the channel
   * @return not connected
   * @throws IOException if the system has no socket left
   */
  public AsynchChannel openStream(AsynchHandler handler) throws IOException {
    return open(Endpoint.Kind.STREAM, handler);
  }

  /**
   * A listener that does not listen before {@link AsynchChannel#bind}.
   *
   * @param handler of the channel
   * @return not bound
   * @throws IOException if the system has no socket left
   */
  public AsynchChannel openListener(AsynchHandler handler) throws IOException {
    return open(Endpoint.Kind.LISTENER, handler);
  }

  /**
   * A datagram channel that is not bound.
   *
   * @param handler of the channel
   * @return not bound
   * @throws IOException if the system has no socket left
   */
  public AsynchChannel openDatagram(AsynchHandler handler) throws IOException {
    return open(Endpoint.Kind.DATAGRAM, handler);
  }

  // -- work --------------------------------------------------------------------------------------

  /**
   * Runs something on one of the lanes.
   *
   * @param action its exceptions go to the exception handler
   * @throws StoppedException if the lanes end or have ended
   */
  public void post(Runnable action) {
    Check.notNull(action, "action");
    if (!nextLane().submit(action)) {
      throw stopped("post");
    }
  }

  /**
   * Runs something on one of the lanes after a while.
   *
   * @param delay 0 or more
   * @param action its exception is the future's
   * @return complete when it has run; cancelling it keeps it from running. {@link StoppedException}
   *     if the lanes end before.
   */
  public CompletableFuture<Void> schedule(Duration delay, Runnable action) {
    long time = Check.notNegative(delay, "delay");
    Check.notNull(action, "action");
    CompletableFuture<Void> done = new CompletableFuture<>();
    Lane lane = nextLane();
    Posted posted = new Posted(lane, action, done);
    posted.deadline = System.nanoTime() + time;
    if (!lane.submit(posted)) {
      throw stopped("schedule");
    }
    done.whenComplete((nothing, error) -> lane.submit(() -> lane.timers.remove(posted)));
    return done;
  }

  /**
   * Lets a handler wait for what its own lane has to do: waits until the lane has work, and does
   * it. Call it again and again until the thing has happened. Handlers are called inside, also
   * those of the same channel. A handler that blocks in another way holds up the lane instead. An
   * interrupt ends the wait, and stays set for the handler to see.
   *
   * @throws IllegalStateException if the calling thread is no lane of this Demultiplexor
   */
  public void turn() {
    for (Lane lane : lanes) {
      if (lane.isCurrent()) {
        lane.turn();
        return;
      }
    }
    throw new IllegalStateException("turn: only a handler may call it, on the thread of its lane");
  }

  // -- the end -----------------------------------------------------------------------------------

  /**
   * Whether a stop has begun, graceful or not.
   *
   * @return true for good then
   */
  public boolean isStopping() {
    return phase.get() != RUNNING;
  }

  /**
   * Stops in good order: listeners are closed, {@link AsynchHandler#onStopping} is called for the
   * other channels, and when all of them are closed the lanes end. Channels that are still open at
   * the deadline are closed with the reason {@link CloseReason#STOPPED}. Does not wait.
   *
   * @param deadline 0 or more, from now
   * @return complete when the lanes have ended
   */
  public CompletableFuture<Void> stop(Duration deadline) {
    long time = Check.notNegative(deadline, "deadline");
    if (phase.compareAndSet(RUNNING, DRAINING)) {
      wakeLanes();
      stopIfQuiet();
    }
    if (phase.get() == DRAINING) {
      // The alarm is forgotten when the lanes have ended.
      terminated()
          .orTimeout(time, TimeUnit.NANOSECONDS)
          .whenComplete(
              (nothing, late) -> {
                if (late != null) {
                  stopNow();
                }
              });
    }
    return terminated();
  }

  /**
   * Complete when the lanes have ended.
   *
   * @return a new future
   */
  public CompletableFuture<Void> terminated() {
    return terminated.copy();
  }

  /**
   * Stops at once: closes every channel with the reason {@link CloseReason#STOPPED}, and waits
   * until the last handler has returned, unless it is called by one of these handlers. Handlers of
   * two Demultiplexors that close each other's wait for ever: they call {@link #stop} instead.
   */
  @Override
  public void close() {
    stopNow();
    for (Lane lane : lanes) {
      if (lane.isCurrent()) {
        return;
      }
    }
    terminated.join();
  }

  /** Needs no memory: the lanes see the phase. */
  void stopNow() {
    phase.set(STOPPING);
    wakeLanes();
  }

  // -- inside ------------------------------------------------------------------------------------

  /** Running, draining or stopping; only ever a later one. */
  int phase() {
    return phase.get();
  }

  private void wakeLanes() {
    for (Lane lane : lanes) {
      lane.wakeIfAsleep();
    }
  }

  Lane nextLane() {
    return lanes[Math.floorMod(turn.getAndIncrement(), lanes.length)];
  }

  /** For the methods that any thread may call. */
  Engine engineForCalls() {
    return lanes[0].engine();
  }

  Executor fileWorkers() {
    return fileWorkers.executor();
  }

  void register(ChannelCore core) {
    if (phase.get() == STOPPING || isStopping() && core.isListener()) {
      throw stopped("a new channel");
    }
    boolean here = core.lane.isCurrent();
    // Made before the channel is counted: there may be no memory for it. A handler is not called
    // inside the call that opens its channel.
    Posted later = null;
    if (!here) {
      later = new Posted(core.lane, () -> core.lane.add(core, null));
    } else if (isStopping()) {
      later = new Posted(core.lane, core::tellStopping);
    }
    openChannels.incrementAndGet();
    if (here) {
      core.lane.add(core, later);
    } else if (!core.lane.submit(later)) {
      channelClosed();
      throw stopped("a new channel");
    }
  }

  void channelClosed() {
    openChannels.decrementAndGet();
    stopIfQuiet();
  }

  void laneEnded() {
    if (lanesRunning.decrementAndGet() == 0) {
      try {
        fileWorkers.end();
      } catch (OutOfMemoryError e) {
        report(e);
      } finally {
        terminated.complete(null);
      }
    }
  }

  void report(Throwable error) {
    try {
      settings.exceptionHandler().accept(error);
    } catch (Throwable e) {
      reportFailure(e);
    }
  }

  /**
   * Never throws: the lane goes on even if an exception of the program throws when it is printed.
   */
  private static void reportFailure(Throwable error) {
    try {
      System.getLogger("io.baton")
          .log(System.Logger.Level.ERROR, "the exception handler itself failed", error);
    } catch (Throwable e) {
      // No handler is left to tell.
      return;
    }
  }

  static StoppedException stopped(String what) {
    return new StoppedException(
        what + ": this Demultiplexor has stopped or is stopping; open another one");
  }

  private void stopIfQuiet() {
    if (phase.get() == DRAINING && openChannels.get() == 0) {
      stopNow();
    }
  }

  private interface FirstStep {
    void on(AsynchChannel channel) throws IOException;
  }

  private AsynchChannel open(Endpoint.Kind kind, AsynchHandler handler, FirstStep step)
      throws IOException {
    AsynchChannel channel = open(kind, handler);
    try {
      step.on(channel);
    } catch (IOException | RuntimeException | Error e) {
      channel.close();
      throw e;
    }
    return channel;
  }

  private AsynchChannel open(Endpoint.Kind kind, AsynchHandler handler) throws IOException {
    Check.notNull(handler, "handler");
    Endpoint endpoint = engineForCalls().open(kind);
    try {
      return new AsynchChannel(this, handler, endpoint);
    } catch (RuntimeException | OutOfMemoryError e) {
      endpoint.close();
      throw e;
    }
  }
}
