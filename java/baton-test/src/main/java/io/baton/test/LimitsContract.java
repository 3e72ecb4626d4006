package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.sun.management.UnixOperatingSystemMXBean;
import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.OpAccept;
import io.baton.OpConnect;
import io.baton.OpRead;
import io.baton.OpTimeout;
import io.baton.OpWrite;
import io.baton.StoppedException;
import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.DataInputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

/** The limits of the machine; each in a process of its own where need be. */
public abstract class LimitsContract extends EngineContract {
  private static final int IDLE = 19_000;

  private ChildJvm.Builder child(Class<?> program) {
    return ChildJvm.of(program).jvmArgument("-Dbaton=" + words());
  }

  private static InetSocketAddress loopback(int port) {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
  }

  // -- descriptors exhausted (rule 11) -----------------------------------------------------------

  /** Uses up its descriptors, waits until an accept was delayed, and gives them back. */
  static final class Exhausted {
    private Exhausted() {}

    public static void main(String[] arguments) throws Exception {
      AtomicInteger accepted = new AtomicInteger();
      AsynchHandler handler =
          new AsynchHandler() {
            @Override
            public void onAcceptCompleted(OpAccept opAccept) throws IOException {
              if (opAccept.getError() == null) {
                accepted.incrementAndGet();
                opAccept.open(new LoadContract.PooledEcho()).readPooled();
                opAccept.getAsynchChannel().accept();
              }
            }
          };
      try (Demultiplexor demultiplexor =
              Demultiplexor.builder().threads(1).fromEnvironment().open();
          Scanner input = new Scanner(System.in)) {
        AsynchChannel listener = demultiplexor.listen(loopback(0), handler);
        listener.accept();
        int port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
        // A session and a message load classes while there are descriptors to read them by. The
        // session stays, and keeps its descriptor.
        try (Socket first = new Socket(loopback(port).getAddress(), port)) {
          first.getOutputStream().write(1);
          first.getInputStream().readNBytes(1);
          useUpAll(demultiplexor, port, accepted, input);
        }
        input.nextLine();
      }
    }

    private static void useUpAll(
        Demultiplexor demultiplexor, int port, AtomicInteger accepted, Scanner input)
        throws IOException {
      System.getLogger("io.baton").log(System.Logger.Level.WARNING, "about to use up all");
      Deque<FileChannel> files = new ArrayDeque<>();
      try {
        while (true) {
          files.push(FileChannel.open(Path.of("/dev/null")));
        }
      } catch (IOException e) {
        System.out.println("full " + e.getMessage());
      }
      System.out.println("port " + port);
      while (demultiplexor.getAcceptBackOffs() == 0) {
        Thread.onSpinWait();
      }
      System.out.println("backoff " + accepted.get());
      input.nextLine();
      while (!files.isEmpty()) {
        files.pop().close();
      }
    }
  }

  @Test
  void acceptsWaitWhileThereAreNoDescriptors() throws Exception {
    try (ChildJvm child = child(Exhausted.class).descriptors(200).start()) {
      assertTrue(child.line("full").contains("Too many open files"));
      int port = Integer.parseInt(child.line("port").substring(5));
      try (Socket client = new Socket(loopback(port).getAddress(), port)) {
        client.setSoTimeout((int) Patience.PATIENCE.toMillis());
        assertEquals("backoff 1", child.line("backoff"));
        child.tell("give them back");
        byte[] message = {1, 2, 3};
        client.getOutputStream().write(message);
        assertArrayEquals(message, client.getInputStream().readNBytes(3));
      }
      child.tell("end");
      assertTrue(child.process().waitFor(60, TimeUnit.SECONDS));
    }
  }

  // -- the first broken pipe of a process (rule 4) -----------------------------------------------

  /** A handler that is interrupted writes to a peer that has closed, and reads what it had sent. */
  static final class FirstBrokenPipe {
    private FirstBrokenPipe() {}

    public static void main(String[] arguments) throws Exception {
      CompletableFuture<String> told = new CompletableFuture<>();
      AsynchHandler handler =
          new AsynchHandler() {
            @Override
            public void onConnectCompleted(OpConnect opConnect) {}

            @Override
            public void onWriteCompleted(OpWrite opWrite) {
              if (opWrite.getError() == null) {
                Thread.currentThread().interrupt();
                opWrite.getAsynchChannel().write(ByteBuffer.allocate(1));
              } else {
                opWrite.getAsynchChannel().read(ByteBuffer.allocate(10));
              }
            }

            @Override
            public void onReadCompleted(OpRead opRead) {
              if (opRead.getError() == null && opRead.getBytesCompleted() > 0) {
                opRead.getAsynchChannel().read(ByteBuffer.allocate(10));
              } else {
                told.complete(opRead.getBytesCompleted() + " " + opRead.getError());
              }
            }
          };
      try (Demultiplexor demultiplexor =
              Demultiplexor.builder().threads(1).fromEnvironment().open();
          ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
        Thread.currentThread().interrupt();
        AsynchChannel channel = demultiplexor.connect(server.getLocalSocketAddress(), handler);
        System.out.println("interrupted " + Thread.interrupted());
        try (Socket peer = server.accept()) {
          peer.getOutputStream().write(new byte[4]);
        }
        channel.write(ByteBuffer.allocate(1));
        System.out.println("end " + told.get());
      }
    }
  }

  @Test
  void anInterruptDoesNotTurnAnEndIntoALoss() throws Exception {
    try (ChildJvm child = child(FirstBrokenPipe.class).start()) {
      assertEquals("interrupted true", child.line("interrupted"));
      assertEquals("end 0 null", child.line("end"));
    }
  }

  // -- idle connections --------------------------------------------------------------------------

  /** Holds the other ends of the connections, which need a descriptor each. */
  static final class Clients {
    private Clients() {}

    public static void main(String[] arguments) throws Exception {
      int port = Integer.parseInt(arguments[0]);
      int number = Integer.parseInt(arguments[1]);
      List<SocketChannel> clients = new ArrayList<>();
      for (int i = 0; i < number; i++) {
        // Several addresses, so that the ports of this machine are enough.
        SocketChannel client = SocketChannel.open();
        client.bind(new InetSocketAddress("127.0.1." + (1 + i % 8), 0));
        client.connect(new InetSocketAddress("127.0.0.1", port));
        clients.add(client);
        if (i % 1000 == 0) {
          System.out.println("so far " + i);
        }
      }
      System.out.println("connected");
      try (Scanner input = new Scanner(System.in)) {
        input.nextLine();
        ByteBuffer message = ByteBuffer.allocate(4);
        for (int i = 0; i < number; i += 19) {
          clients.get(i).write(message.clear().putInt(0, i));
          DataInputStream in = new DataInputStream(clients.get(i).socket().getInputStream());
          if (in.readInt() != i) {
            throw new AssertionError("connection " + i);
          }
        }
        System.out.println("echoed");
        input.nextLine();
      }
    }
  }

  @Test
  void idleConnectionsHoldNoBuffers() throws Exception {
    long descriptors =
        ((UnixOperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getMaxFileDescriptorCount();
    assumeTrue(
        descriptors >= IDLE + 500,
        IDLE + " connections need as many descriptors, and this process may have " + descriptors);
    CountDownLatch accepted = new CountDownLatch(IDLE);
    AsynchHandler handler =
        new AsynchHandler() {
          @Override
          public void onAcceptCompleted(OpAccept opAccept) throws IOException {
            if (opAccept.getError() == null) {
              opAccept.open(new LoadContract.PooledEcho()).readPooled();
              opAccept.getAsynchChannel().accept();
              accepted.countDown();
            }
          }
        };
    // Its handlers may be starting when it is closed.
    try (Demultiplexor two = choose(Demultiplexor.builder()).threads(2).open()) {
      AsynchChannel listener = two.listen("127.0.0.1", 0, handler);
      listener.accept();
      int port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
      try (ChildJvm clients =
          ChildJvm.of(Clients.class)
              .argument(Integer.toString(port))
              .argument(Integer.toString(IDLE))
              .start()) {
        clients.line("connected");
        Patience.await(accepted, "the last connection");
        assertEquals(IDLE + 1, two.getOpenChannels());
        // A read that is tried borrows a block and gives it back: one for each lane.
        assertTrue(two.getPooledBuffers() <= 2);
        clients.tell("send");
        clients.line("echoed");
        assertTrue(two.getPooledBuffers() <= 4);
        clients.tell("end");
      }
    }
  }

  // -- little memory -----------------------------------------------------------------------------

  /** The load suite's thousand connections while the collector works all the time. */
  static final class Stressed {
    private Stressed() {}

    public static void main(String[] arguments) throws Exception {
      Thread garbage =
          new Thread(
              () -> {
                byte[][] kept = new byte[16][];
                for (int i = 0; true; i++) {
                  kept[i % kept.length] = new byte[64 << 10];
                  ByteBuffer.allocateDirect(4096);
                  // Leaves the others some time, also on a busy machine.
                  LockSupport.parkNanos(100_000);
                  if (i % 500 == 0) {
                    System.gc();
                  }
                }
              });
      garbage.setDaemon(true);
      garbage.start();
      try {
        LoadContract load =
            new LoadContract() {
              @Override
              protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
                return builder.fromEnvironment();
              }
            };
        load.openDemultiplexor();
        load.aThousandConnectionsToTheByte();
        load.closeDemultiplexor();
        System.out.println("a thousand connections");
        load.openDemultiplexor();
        load.fullDuplexToTheByte();
        load.closeDemultiplexor();
        System.out.println("passed");
      } catch (Throwable e) {
        // The lanes would keep the program alive.
        e.printStackTrace(System.out);
        System.exit(1);
      }
    }
  }

  @Test
  void aBusyCollectorAndLittleMemoryChangeNothing() throws Exception {
    try (ChildJvm child =
        child(Stressed.class)
            .jvmArgument("-Xmx48m")
            .jvmArgument("-XX:MaxDirectMemorySize=64m")
            .start()) {
      child.line("a thousand connections");
      child.line("passed");
      assertTrue(child.process().waitFor(60, TimeUnit.SECONDS));
      assertEquals(0, child.process().exitValue());
    }
  }

  /** Reads with heap buffers, for which java.nio needs more direct memory than there is. */
  static final class WithoutDirectMemory {
    private WithoutDirectMemory() {}

    public static void main(String[] arguments) throws Exception {
      AsynchHandler handler = new AsynchHandler() {};
      try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
          Demultiplexor demultiplexor =
              Demultiplexor.builder().threads(1).fromEnvironment().open()) {
        AsynchFutures file =
            demultiplexor.file(Path.of("/dev/zero"), handler, StandardOpenOption.READ).futures();
        System.out.println("file " + end(file.read(ByteBuffer.allocate(1 << 20))));
        AsynchChannel channel = demultiplexor.openStream(handler);
        AsynchFutures stream = channel.futures();
        stream.connect(server.getLocalSocketAddress()).get();
        try (Socket peer = server.accept()) {
          System.out.println("write " + end(stream.write(ByteBuffer.allocate(1 << 20))));
          System.out.println("read " + end(stream.read(ByteBuffer.allocate(1 << 20)), peer));
          System.out.println("small read " + end(stream.read(ByteBuffer.allocate(1)), peer));
        }
      } catch (Throwable e) {
        e.printStackTrace(System.out);
        System.exit(1);
      }
      System.out.println("closed");
    }

    private static String end(Future<Integer> future, Socket peer) throws Exception {
      peer.getOutputStream().write(1);
      return end(future);
    }

    private static String end(Future<Integer> future) throws Exception {
      try {
        return future.get(Patience.PATIENCE.toMillis(), TimeUnit.MILLISECONDS) > 0 ? "good" : "bad";
      } catch (ExecutionException e) {
        return e.getCause().getClass().getName();
      }
    }
  }

  @Test
  void aLackOfDirectMemoryFailsTheOperationOnly() throws Exception {
    // The engine native copies heap buffers itself, and so does java.nio of newer JDKs for files.
    List<String> ends = List.of("good", OutOfMemoryError.class.getName());
    try (ChildJvm child =
        child(WithoutDirectMemory.class).jvmArgument("-XX:MaxDirectMemorySize=64k").start()) {
      assertTrue(ends.contains(child.line("file").substring(5)));
      assertTrue(ends.contains(child.line("write").substring(6)));
      assertTrue(ends.contains(child.line("read").substring(5)));
      assertEquals("small read good", child.line("small read"));
      child.line("closed");
      assertTrue(child.process().waitFor(60, TimeUnit.SECONDS));
    }
  }

  /** Channels that are told that they are idle, again and again, while there is no memory. */
  static final class WithoutHeap {
    private static final int CHANNELS = 50;

    private WithoutHeap() {}

    public static void main(String[] arguments) throws Exception {
      AsynchHandler handler =
          new AsynchHandler() {
            @Override
            public void onTimeout(OpTimeout opTimeout) {}
          };
      Demultiplexor demultiplexor =
          Demultiplexor.builder().exceptionHandler(error -> {}).fromEnvironment().open();
      List<AsynchChannel> channels = new ArrayList<>();
      for (int i = 0; i < CHANNELS; i++) {
        channels.add(demultiplexor.openDatagram(handler));
        channels.get(i).setReadIdleTimeout(Duration.ofMillis(1));
      }
      // In a thread of its own, which may break off anywhere: the JVM itself needs memory for what
      // runs the first time.
      Thread filling = new Thread(WithoutHeap::fillHeap);
      filling.setUncaughtExceptionHandler((thread, error) -> {});
      filling.start();
      filling.join();
      CountDownLatch served = new CountDownLatch(CHANNELS);
      try {
        channels.forEach(channel -> channel.post(served::countDown));
        served.await();
      } catch (StoppedException e) {
        // An engine that needs memory itself ends, but then everything ends.
        demultiplexor.terminated().get();
      }
      System.out.println("served");
      demultiplexor.close();
      System.out.println("closed " + demultiplexor.getOpenChannels());
    }

    private static void fillHeap() {
      for (int i = 0; i < 5; i++) {
        try {
          fillHeap(System.nanoTime() + Duration.ofMillis(200).toNanos());
        } catch (OutOfMemoryError e) {
          continue;
        }
      }
    }

    private static void fillHeap(long end) {
      List<byte[]> filled = new ArrayList<>(1 << 16);
      int size = 1 << 20;
      while (end - System.nanoTime() > 0) {
        try {
          filled.add(new byte[size]);
        } catch (OutOfMemoryError e) {
          size = Math.max(16, size / 4);
        }
      }
    }
  }

  /** Delayed work that comes to its lane while there is no memory for its place. */
  static final class ScheduledWithoutHeap {
    private static final int COUNT = 2000;

    private ScheduledWithoutHeap() {}

    public static void main(String[] arguments) throws Exception {
      Demultiplexor demultiplexor =
          Demultiplexor.builder().threads(1).exceptionHandler(error -> {}).fromEnvironment().open();
      CompletableFuture<Void> full = new CompletableFuture<>();
      demultiplexor.post(full::join);
      List<CompletableFuture<Void>> scheduled = new ArrayList<>();
      for (int i = 0; i < COUNT; i++) {
        scheduled.add(demultiplexor.schedule(Duration.ofMillis(1), () -> {}));
      }
      Thread filling = new Thread(() -> fillHeap(full));
      filling.setUncaughtExceptionHandler((thread, error) -> {});
      filling.start();
      filling.join();
      full.complete(null);
      for (CompletableFuture<Void> one : scheduled) {
        one.get();
      }
      System.out.println("ended " + COUNT);
      demultiplexor.close();
    }

    /** full: is completed when not 16 bytes are left. It goes on for a while then. */
    private static void fillHeap(CompletableFuture<Void> full) {
      byte[][] filled = new byte[1 << 20][];
      int count = 0;
      int size = 1 << 20;
      long end = System.nanoTime() + Duration.ofMinutes(1).toNanos();
      while (end - System.nanoTime() > 0) {
        try {
          filled[count] = new byte[size];
          count++;
        } catch (OutOfMemoryError e) {
          if (size == 16 && full.complete(null)) {
            end = System.nanoTime() + 500_000_000;
          }
          size = Math.max(16, size / 4);
        }
      }
    }
  }

  @Test
  void aLackOfHeapHoldsUpEndsAndLosesNone() throws Exception {
    try (ChildJvm child =
        child(EndsWithoutHeap.class)
            .jvmArgument("-Xmx32m")
            .jvmArgument("-XX:+UseSerialGC")
            .start()) {
      child.line("closed");
      child.line("completed");
      assertEquals("stopped 20", child.line("stopped"));
      child.line("refused");
    }
  }

  @Test
  void aLackOfHeapLosesNoScheduledWork() throws Exception {
    try (ChildJvm child =
        child(ScheduledWithoutHeap.class)
            .jvmArgument("-Xmx32m")
            .jvmArgument("-XX:+UseSerialGC")
            .start()) {
      assertEquals("ended 2000", child.line("ended"));
    }
  }

  @Test
  void aLackOfHeapEndsNoLane() throws Exception {
    try (ChildJvm child = child(WithoutHeap.class).jvmArgument("-Xmx32m").start()) {
      child.line("served");
      assertEquals("closed 0", child.line("closed"));
    }
  }

  /**
   * Futures that fail, or that the program completes, a stop and an open, each where not 16 bytes
   * are left.
   */
  static final class EndsWithoutHeap {
    private static final int READS = 20;
    private static final int CHANNELS = 20;
    private static final Integer ONE = 1;

    /** Kept: the end of a read must not leave memory for the next one. */
    private static final ByteBuffer[] ROOMS = new ByteBuffer[READS];

    private static volatile byte[][] filled;
    private static volatile Link links;
    private static volatile boolean full;

    /** The smallest object. */
    private record Link(Link next) {}

    private EndsWithoutHeap() {}

    public static void main(String[] arguments) throws Exception {
      try {
        futuresOfAClosedChannel();
        futuresThatTheProgramCompletes();
        stop();
        open();
      } catch (Throwable e) {
        free();
        e.printStackTrace(System.out);
        System.exit(1);
      }
    }

    private static Demultiplexor opened() throws IOException {
      return Demultiplexor.builder()
          .threads(1)
          .exceptionHandler(error -> {})
          .fromEnvironment()
          .open();
    }

    private static void prepare() {
      // Loads the class.
      links = new Link(null);
      filled = new byte[1 << 20][];
    }

    private static void fill() {
      byte[][] to = filled;
      int count = 0;
      int size = 1 << 20;
      while (true) {
        try {
          to[count] = new byte[size];
          count++;
        } catch (OutOfMemoryError e) {
          if (size == 16) {
            break;
          }
          size /= 4;
        }
      }
      try {
        while (true) {
          links = new Link(links);
        }
      } catch (OutOfMemoryError e) {
        full = true;
      }
    }

    private static void free() {
      links = null;
      filled = null;
    }

    private static List<CompletableFuture<Integer>> reads(AsynchChannel channel) {
      List<CompletableFuture<Integer>> reads = new ArrayList<>();
      for (int i = 0; i < READS; i++) {
        ROOMS[i] = ByteBuffer.allocate(1);
        reads.add(channel.futures().read(ROOMS[i]));
      }
      return reads;
    }

    private static void futuresOfAClosedChannel() throws Exception {
      try (Demultiplexor demultiplexor = opened()) {
        AsynchChannel channel = demultiplexor.datagram(loopback(0), new AsynchHandler() {});
        List<CompletableFuture<Integer>> reads = reads(channel);
        prepare();
        channel.post(
            () -> {
              // It comes behind the ends of all reads.
              demultiplexor.schedule(Duration.ZERO, EndsWithoutHeap::free);
              fill();
              reads.get(READS - 1).cancel(true);
              channel.close();
            });
        while (filled != null) {
          Thread.onSpinWait();
        }
        for (CompletableFuture<Integer> read : reads) {
          Patience.awaitFailure(read, "a read of a closed channel");
        }
        System.out.println("closed");
      }
    }

    private static void futuresThatTheProgramCompletes() throws Exception {
      try (Demultiplexor demultiplexor = opened()) {
        AsynchChannel channel = demultiplexor.datagram(loopback(0), new AsynchHandler() {});
        List<CompletableFuture<Integer>> reads = reads(channel);
        prepare();
        fill();
        for (int i = 0; i < READS; i++) {
          try {
            reads.get(i).complete(ONE);
          } catch (OutOfMemoryError e) {
            // The program may think that nothing was changed.
            continue;
          }
        }
        free();
        channel.close();
        for (CompletableFuture<Integer> read : reads) {
          read.handle((bytes, error) -> ONE).get(60, TimeUnit.SECONDS);
        }
        System.out.println("completed");
      }
    }

    private static void stop() throws Exception {
      Demultiplexor demultiplexor = opened();
      AtomicInteger told = new AtomicInteger();
      for (int i = 0; i < CHANNELS; i++) {
        demultiplexor.datagram(
            loopback(0),
            new AsynchHandler() {
              @Override
              public void onStopping(AsynchChannel channel) {
                told.incrementAndGet();
                channel.close();
              }
            });
      }
      prepare();
      CountDownLatch stopping = new CountDownLatch(1);
      demultiplexor.post(
          () -> {
            Patience.await(stopping, "the stop");
            demultiplexor.schedule(Duration.ZERO, EndsWithoutHeap::free);
            fill();
          });
      CompletableFuture<Void> end = demultiplexor.stop(Duration.ofHours(1));
      stopping.countDown();
      while (filled != null) {
        Thread.onSpinWait();
      }
      Patience.await(end, "the stop");
      System.out.println("stopped " + told);
    }

    private static void open() {
      Thread opener = Thread.currentThread();
      IOException refusal = new IOException("of the test");
      EngineProvider refusing =
          new EngineProvider() {
            @Override
            public String name() {
              return "refusing";
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
              while (opener.getState() != Thread.State.WAITING) {
                Thread.onSpinWait();
              }
              fill();
              throw refusal;
            }
          };
      full = false;
      prepare();
      Thread mending =
          new Thread(
              () -> {
                while (!full) {
                  Thread.onSpinWait();
                }
                // Long enough for a try without memory.
                long end = System.nanoTime() + 100_000_000;
                while (end - System.nanoTime() > 0) {
                  Thread.onSpinWait();
                }
                free();
              });
      mending.start();
      try {
        Demultiplexor.builder().engine(refusing).threads(1).open();
        return;
      } catch (IOException | OutOfMemoryError e) {
        // The message may have found no memory either.
        while (filled != null) {
          Thread.onSpinWait();
        }
      }
      System.out.println("refused");
    }
  }

  /** Recursions without end around starts: on the lane and on another thread. */
  static final class WithoutStack implements AsynchHandler {
    private final AtomicLong completed = new AtomicLong();
    private long started;

    public static void main(String[] arguments) throws Exception {
      try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
        for (int frame = 0; frame < 8; frame++) {
          for (boolean onLane : new boolean[] {true, false}) {
            new WithoutStack().run(server, frame, onLane);
          }
        }
      } catch (Throwable e) {
        e.printStackTrace(System.out);
        System.exit(1);
      }
      System.out.println("closed");
    }

    private void run(ServerSocket server, int frames, boolean onLane) throws Exception {
      try (Demultiplexor demultiplexor =
          Demultiplexor.builder().threads(1).operationsMax(1_000_000).fromEnvironment().open()) {
        AsynchChannel channel = demultiplexor.openStream(this);
        channel.futures().connect(server.getLocalSocketAddress()).get();
        try (Socket peer = server.accept()) {
          // The JVM loads what these need before there is no stack for it.
          channel.write(ByteBuffer.allocate(1));
          channel.startTimer(Duration.ofHours(1));
          started = 2;
          CountDownLatch over = new CountDownLatch(1);
          Runnable all =
              () -> {
                try {
                  deeper(channel, frames);
                } catch (StackOverflowError e) {
                  over.countDown();
                }
              };
          if (onLane) {
            channel.post(all);
          } else {
            new Thread(null, all, "recursion", 512 << 10).start();
          }
          over.await();
          channel.close();
          peer.getInputStream().readAllBytes();
        }
        demultiplexor.close();
        assertEquals(started, completed.get());
        assertEquals(0, channel.getQueuedBytes());
      }
    }

    /** The stack ends at another place for each number of frames before. */
    private void deeper(AsynchChannel channel, int frames) {
      if (frames > 0) {
        deeper(channel, frames - 1);
      } else {
        deeper(channel);
      }
    }

    private void deeper(AsynchChannel channel) {
      channel.write(ByteBuffer.allocate(1));
      started++;
      channel.startTimer(Duration.ofHours(1));
      started++;
      deeper(channel);
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      completed.incrementAndGet();
    }

    @Override
    public void onTimeout(OpTimeout opTimeout) {
      completed.incrementAndGet();
    }
  }

  @Test
  void anEndOfTheStackInsideAStartLosesNoOperation() throws Exception {
    // In the interpreter each call may be the one that has no room.
    try (ChildJvm child = child(WithoutStack.class).jvmArgument("-Xint").start()) {
      child.line("closed");
    }
  }

  /** Starts one operation where the stack ends, and nothing else that would wake the lane. */
  static final class LastStart implements AsynchHandler {
    private final Semaphore completed = new Semaphore(0);
    private int deepest;
    private boolean started;

    public static void main(String[] arguments) throws Exception {
      try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
          Demultiplexor demultiplexor =
              Demultiplexor.builder().threads(1).fromEnvironment().open()) {
        LastStart handler = new LastStart();
        AsynchChannel channel = demultiplexor.openStream(handler);
        channel.futures().connect(server.getLocalSocketAddress()).get();
        // The JVM loads what these need before there is no stack for it.
        channel.write(ByteBuffer.allocate(1));
        handler.completed.acquire();
        onSmallStack(() -> handler.measure(0));
        int end = handler.deepest;
        for (int frames = end - 300; frames < end; frames++) {
          int here = frames;
          handler.started = false;
          onSmallStack(() -> handler.start(channel, here));
          if (handler.started) {
            handler.completed.acquire();
          }
        }
      }
      System.out.println("closed");
    }

    private static void onSmallStack(Runnable recursion) throws InterruptedException {
      Runnable guarded =
          () -> {
            try {
              recursion.run();
            } catch (StackOverflowError e) {
              // As meant.
              return;
            }
          };
      Thread thread = new Thread(null, guarded, "recursion", 256 << 10);
      thread.start();
      thread.join();
    }

    private void measure(int frames) {
      deepest = frames;
      measure(frames + 1);
    }

    private void start(AsynchChannel channel, int frames) {
      if (frames > 0) {
        start(channel, frames - 1);
      } else {
        channel.write(ByteBuffer.allocate(1));
        started = true;
      }
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      completed.release();
    }
  }

  @Test
  void aStartThatHasNoStackForTheWakeUpOfTheLaneThrowsAndStartsNothing() throws Exception {
    try (ChildJvm child = child(LastStart.class).jvmArgument("-Xint").start()) {
      child.line("closed");
    }
  }

  /** Recursions without end around turns of the lane, which then serves on. */
  static final class TurnsWithoutStack {
    private static final int ROUNDS = 20;

    private TurnsWithoutStack() {}

    public static void main(String[] arguments) throws Exception {
      int served = 0;
      for (int i = 0; i < ROUNDS; i++) {
        try (Demultiplexor demultiplexor =
            Demultiplexor.builder().threads(1).fromEnvironment().open()) {
          CountDownLatch over = new CountDownLatch(1);
          demultiplexor.post(
              () -> {
                // No turn waits then.
                Thread.currentThread().interrupt();
                try {
                  deeper(demultiplexor);
                } catch (StackOverflowError e) {
                  over.countDown();
                }
              });
          over.await();
          CountDownLatch next = new CountDownLatch(1);
          demultiplexor.post(next::countDown);
          next.await();
          served += demultiplexor.isStopping() ? 0 : 1;
        }
      }
      System.out.println("served " + served);
    }

    private static void deeper(Demultiplexor demultiplexor) {
      demultiplexor.turn();
      deeper(demultiplexor);
    }
  }

  @Test
  void anEndOfTheStackInsideATurnEndsNoLane() throws Exception {
    try (ChildJvm child = child(TurnsWithoutStack.class).start()) {
      assertEquals("served 20", child.line("served"));
    }
  }
}
