package io.baton.test;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.OpClose;
import io.baton.OpConnect;
import io.baton.OpRead;
import io.baton.OpTimeout;
import io.baton.OpWrite;
import io.baton.Operation;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/**
 * Keeps a Demultiplexor busy for long, with books: connections that echo and are renewed, timers,
 * cancels; every start has its completion, every byte is compared, and at the end there are as many
 * descriptors and as much heap as near the beginning. {@code scripts/soak --java} runs it.
 *
 * <p>Usage: {@code Soak [operations [seconds]]}; the engine is that of {@code BATON}.
 */
public final class Soak {
  private static final int CLIENTS = 64;
  private static final int LONGEST = 4096;
  private static final int MESSAGES_A_CONNECTION = 500;
  private static final long HEAP_GROWTH_MAX = 8 << 20;

  private final LongAdder starts = new LongAdder();
  private final LongAdder completions = new LongAdder();
  private final LongAdder bytes = new LongAdder();
  private final LongAdder violations = new LongAdder();
  private final CountDownLatch clients = new CountDownLatch(CLIENTS);
  private final Demultiplexor demultiplexor;
  private final InetSocketAddress address;
  private volatile boolean ending;

  private Soak() throws IOException {
    demultiplexor =
        Demultiplexor.builder()
            .threads(2)
            .exceptionHandler(error -> violation("a handler has thrown " + error))
            .fromEnvironment()
            .open();
    AsynchChannel listener =
        demultiplexor.listen(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new Listener());
    address = (InetSocketAddress) listener.getLocalAddress();
    starts.increment();
    listener.accept();
  }

  private void violation(String what) {
    violations.increment();
    System.out.println("violation: " + what);
  }

  /** True if it was good, or the soak is over, when anything may be cut short. */
  private boolean completed(Operation operation) {
    completions.increment();
    if (operation.getError() != null && !ending) {
      violation(operation.getClass().getSimpleName() + " failed: " + operation.getError());
    }
    return operation.getError() == null;
  }

  /** Accepts, and echoes by blocks of the pool. */
  private final class Listener implements AsynchHandler {
    @Override
    public void onAcceptCompleted(OpAccept accept) throws IOException {
      completions.increment();
      if (accept.getError() == null) {
        starts.increment();
        accept.open(new Echo()).readPooled();
        starts.increment();
        accept.getAsynchChannel().accept();
      }
    }
  }

  private final class Echo implements AsynchHandler {
    @Override
    public void onReadCompleted(OpRead read) {
      completions.increment();
      AsynchChannel channel = read.getAsynchChannel();
      if (read.getError() != null || read.getBytesCompleted() <= 0) {
        channel.close();
      } else {
        starts.increment();
        channel.write(read.takePooled());
      }
    }

    @Override
    public void onWriteCompleted(OpWrite write) {
      completions.increment();
      if (write.getError() == null && write.getAsynchChannel().isOpen()) {
        starts.increment();
        write.getAsynchChannel().readPooled();
      }
    }
  }

  /** A connection after the other; on the heap or not by turns. */
  private final class Client implements AsynchHandler {
    private final Random random;
    private final ByteBuffer out;
    private final ByteBuffer in;
    private int messages;
    private int begin;

    Client(int number) {
      random = new Random(number);
      out = number % 2 == 0 ? ByteBuffer.allocate(LONGEST) : ByteBuffer.allocateDirect(LONGEST);
      in = number % 4 < 2 ? ByteBuffer.allocate(LONGEST) : ByteBuffer.allocateDirect(LONGEST);
    }

    void connect() throws IOException {
      messages = 0;
      starts.increment();
      demultiplexor.connect(address, this);
    }

    @Override
    public void onConnectCompleted(OpConnect connect) {
      if (completed(connect)) {
        send(connect.getAsynchChannel());
      } else {
        connect.getAsynchChannel().close();
      }
    }

    private void send(AsynchChannel channel) {
      if (ending || ++messages > MESSAGES_A_CONNECTION) {
        channel.close();
        return;
      }
      int length = 1 + random.nextInt(LONGEST);
      begin = random.nextInt();
      out.clear();
      for (int i = 0; i < length; i++) {
        out.put((byte) (begin + i * 31));
      }
      if (messages % 20 == 0) {
        starts.increment();
        channel.cancel(channel.startTimer(Duration.ofHours(1)));
      }
      starts.add(2);
      channel.write(out.flip());
      channel.readExactly(in.clear().limit(length));
    }

    @Override
    public void onWriteCompleted(OpWrite write) {
      completed(write);
    }

    @Override
    public void onTimeout(OpTimeout timeout) {
      completions.increment();
    }

    @Override
    public void onReadCompleted(OpRead read) {
      if (!completed(read)) {
        read.getAsynchChannel().close();
        return;
      }
      for (int i = 0; i < in.limit(); i++) {
        if (in.get(i) != (byte) (begin + i * 31)) {
          violation("byte " + i + " of " + in.limit() + " is wrong");
          break;
        }
      }
      bytes.add(in.limit());
      send(read.getAsynchChannel());
    }

    @Override
    public void onClosed(OpClose close) throws IOException {
      if (ending) {
        clients.countDown();
      } else {
        connect();
      }
    }
  }

  private void run(long operations, long seconds) throws Exception {
    for (int i = 0; i < CLIENTS; i++) {
      new Client(i).connect();
    }
    long begin = System.nanoTime();
    long end = begin + TimeUnit.SECONDS.toNanos(seconds);
    long before = waitFor(operations / 20, end);
    long after = waitFor(operations, end);
    ending = true;
    if (!clients.await(1, TimeUnit.MINUTES)) {
      violation(clients.getCount() + " clients do not end");
    }
    demultiplexor.stop(Duration.ofSeconds(30)).get(1, TimeUnit.MINUTES);
    long growth = after - before;
    if (growth > HEAP_GROWTH_MAX) {
      violation("the heap has grown by " + growth + " bytes");
    }
    if (starts.sum() != completions.sum()) {
      violation(starts.sum() + " starts and " + completions.sum() + " completions");
    }
    System.out.printf(
        "soak java %s operations %d completed %d bytes %d seconds %d heap_growth %d%n",
        demultiplexor.getEngine(),
        starts.sum(),
        completions.sum(),
        bytes.sum(),
        TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begin),
        growth);
  }

  /** The heap in use then, after a collection. A minute without a completion is a violation. */
  private long waitFor(long operations, long end) throws InterruptedException {
    long seen = -1;
    long since = System.nanoTime();
    while (completions.sum() < operations && System.nanoTime() < end) {
      Thread.sleep(50);
      if (completions.sum() != seen) {
        seen = completions.sum();
        since = System.nanoTime();
      } else if (System.nanoTime() - since > TimeUnit.MINUTES.toNanos(1)) {
        violation("nothing has completed for a minute");
        break;
      }
    }
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }

  private static int descriptors() {
    String[] names = new java.io.File("/proc/self/fd").list();
    return names == null ? 0 : names.length;
  }

  /**
   * Runs it.
   *
   * @param arguments operations (10^8) and seconds at most (none)
   * @throws Exception if it cannot run; the status is 1 after a violation
   */
  public static void main(String[] arguments) throws Exception {
    long operations = arguments.length > 0 ? Long.parseLong(arguments[0]) : 100_000_000;
    long seconds = arguments.length > 1 ? Long.parseLong(arguments[1]) : Integer.MAX_VALUE;
    // Descriptors that the first one leaves open belong to the JVM.
    Soak first = new Soak();
    first.run(20_000, seconds);
    int before = descriptors();
    Soak soak = new Soak();
    soak.run(operations, seconds);
    int after = descriptors();
    if (after > before) {
      soak.violation(after + " descriptors are open, and " + before + " were");
    }
    long violations = first.violations.sum() + soak.violations.sum();
    System.out.printf(
        "soak java %s descriptors %d violations %d verdict %s%n",
        soak.demultiplexor.getEngine(), after, violations, violations == 0 ? "good" : "bad");
    System.exit(violations == 0 ? 0 : 1);
  }
}
