package io.baton.test;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeEach;

/**
 * Shared by all parts of the contract: a Demultiplexor on the engine under test, and peers that are
 * plain blocking sockets, so that the library is not tested by itself.
 *
 * <p>Rule numbers are those of docs/guide/contract.md.
 */
public abstract class EngineContract {
  /** Unexpected exceptions of handlers. */
  private final Queue<Throwable> reported = new ConcurrentLinkedQueue<>();

  /** The engine under test, with two lanes. */
  protected Demultiplexor demultiplexor;

  /**
   * Chooses the engine under test: the one of {@link EngineWords}, unless a test does otherwise.
   *
   * @param builder to change
   * @return the same
   */
  protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
    for (String word : words().split(",")) {
      int end = word.indexOf('=');
      builder.set(word.substring(0, end), word.substring(end + 1));
    }
    return builder;
  }

  /** The engine under test, as the property {@code baton} has it in a program of its own. */
  final String words() {
    Class<?> test = getClass();
    while (!test.isAnnotationPresent(EngineWords.class)) {
      test = test.getEnclosingClass();
      if (test == null) {
        throw new IllegalStateException(getClass() + " has no EngineWords, nor a class around it");
      }
    }
    return test.getAnnotation(EngineWords.class).value();
  }

  /**
   * Settings with the engine under test.
   *
   * @return two lanes, and errors of handlers fail the test
   */
  protected final DemultiplexorBuilder builder() {
    return choose(Demultiplexor.builder().threads(2).exceptionHandler(reported::add));
  }

  /**
   * Removes the reported exceptions, so that they do not fail the test.
   *
   * @return the oldest, or null
   */
  protected final Throwable takeReported() {
    return reported.poll();
  }

  @BeforeEach
  void openDemultiplexor() throws IOException {
    demultiplexor = builder().open();
  }

  @AfterEach
  void closeDemultiplexor() {
    demultiplexor.close();
    Throwable first = reported.poll();
    if (first != null) {
      throw new AssertionError("reported, and not expected", first);
    }
    Assertions.assertEquals(0, demultiplexor.getOpenChannels(), "channels left open");
  }

  /**
   * A free port of the loopback address.
   *
   * @return port 0
   */
  protected static InetSocketAddress loopback() {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
  }

  /**
   * The address of a channel.
   *
   * @param channel bound
   * @return its local address
   */
  protected static InetSocketAddress address(AsynchChannel channel) {
    try {
      return (InetSocketAddress) channel.getLocalAddress();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** A channel and the plain socket at its other end. */
  protected record Connection(AsynchChannel channel, Socket peer) implements AutoCloseable {
    @Override
    public void close() throws IOException {
      peer.close();
      channel.close();
    }
  }

  /**
   * A connected channel.
   *
   * @param recorder of the channel
   * @return with a plain socket as its peer
   * @throws IOException if there is none
   */
  protected final Connection connected(Recorder recorder) throws IOException {
    return connected(demultiplexor, recorder);
  }

  /**
   * A connected channel.
   *
   * @param owner whose channel
   * @param recorder of the channel
   * @return with a plain socket as its peer
   * @throws IOException if there is none
   */
  protected static Connection connected(Demultiplexor owner, Recorder recorder) throws IOException {
    try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      AsynchChannel channel = owner.connect(server.getLocalSocketAddress(), recorder);
      Socket peer = server.accept();
      peer.setSoTimeout((int) Patience.PATIENCE.toMillis());
      peer.setTcpNoDelay(true);
      recorder.nextGood(What.CONNECT);
      return new Connection(channel, peer);
    }
  }

  /**
   * A plain socket that is connected to a listener.
   *
   * @param listener listening
   * @return connected
   * @throws IOException if refused
   */
  protected static Socket plainClient(AsynchChannel listener) throws IOException {
    InetSocketAddress to = address(listener);
    Socket socket = new Socket(to.getAddress(), to.getPort());
    socket.setSoTimeout((int) Patience.PATIENCE.toMillis());
    socket.setTcpNoDelay(true);
    return socket;
  }

  /**
   * A listener with one accept started.
   *
   * @param handler of the listener
   * @return listening on the loopback address
   * @throws IOException if the system refuses
   */
  protected final AsynchChannel listener(AsynchHandler handler) throws IOException {
    AsynchChannel listener = demultiplexor.listen(loopback(), handler);
    listener.accept();
    return listener;
  }

  /**
   * Text as bytes.
   *
   * @param text to encode
   * @return UTF-8
   */
  protected static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /**
   * Text in a buffer.
   *
   * @param text to encode
   * @return ready to be written
   */
  protected static ByteBuffer buffer(String text) {
    return ByteBuffer.wrap(bytes(text));
  }

  /**
   * Runs something on the channel's lane and waits for its end.
   *
   * @param channel whose lane
   * @param action to run
   */
  protected static void onLane(AsynchChannel channel, ThrowingRunnable action) {
    var done = new java.util.concurrent.CompletableFuture<Void>();
    channel.post(
        () -> {
          try {
            action.run();
            done.complete(null);
          } catch (Throwable e) {
            done.completeExceptionally(e);
          }
        });
    Patience.await(done, "an action on the lane");
  }

  /**
   * Holds up the lane of a Demultiplexor that has one.
   *
   * @param owner with one lane
   * @return lets the lane go on
   */
  protected static CountDownLatch held(Demultiplexor owner) {
    CountDownLatch holds = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    owner.post(
        () -> {
          holds.countDown();
          Patience.await(goOn, "the test");
        });
    Patience.await(holds, "the lane");
    return goOn;
  }

  /** A listener whose queue is full: the system does not answer to a connect. */
  protected static final class FullListener implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    private final Socket first = new Socket(listener.getInetAddress(), listener.getLocalPort());
    private final Socket second = new Socket(listener.getInetAddress(), listener.getLocalPort());

    FullListener() throws IOException {}

    InetSocketAddress address() {
      return (InetSocketAddress) listener.getLocalSocketAddress();
    }

    @Override
    public void close() throws IOException {
      first.close();
      second.close();
      listener.close();
    }
  }

  /** May throw anything. */
  protected interface ThrowingRunnable {
    /**
     * Runs.
     *
     * @throws Exception fails the test
     */
    void run() throws Exception;
  }
}
