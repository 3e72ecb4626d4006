package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.CloseReason;
import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.OperationCancelledException;
import io.baton.test.Completion;
import io.baton.test.Completion.What;
import io.baton.test.EngineContract;
import io.baton.test.Patience;
import io.baton.test.Recorder;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.BindException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.NoRouteToHostException;
import java.net.ProtocolException;
import java.net.Socket;
import java.net.SocketException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AlreadyBoundException;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ConnectionPendingException;
import java.nio.channels.NotYetConnectedException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Every native call fails once, and the caller gets the error. */
class FailingCallsTest extends EngineContract {
  private static final int IO_ERROR = 5;
  private static final int NO_DESCRIPTORS = 24;
  private static final int ABORTED = 103;
  private static final int NO_BUFFERS = 105;
  private static final int NO_SUCH_OPTION = 92;
  private static final int NO_FREE_HANDLES = 10012;
  private static final int ENGINE_UNAVAILABLE = 10014;

  private final WatchedCalls calls = new WatchedCalls(Map.of());

  @Override
  protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
    return builder.engine(calls).threads(1);
  }

  @AfterEach
  void everythingThatWasToFailHasFailed() {
    assertTrue(calls.allFailed());
  }

  private static void saysNoDescriptors(Throwable refused) {
    assertEquals("Too many open files", refused.getMessage());
  }

  // -- opening -----------------------------------------------------------------------------------

  @Test
  void open() {
    calls.failNext("open", ENGINE_UNAVAILABLE);
    var refused = assertThrows(IOException.class, () -> builder().open());
    assertTrue(
        refused.getMessage().startsWith("the engine watched could not be opened: "),
        refused::getMessage);
    assertTrue(refused.getMessage().contains("engine"), refused::getMessage);
  }

  @Test
  void attach() {
    calls.failNext("attach", Errors.OUT_OF_MEMORY);
    // It must be called.
    calls.replaceNext(
        "close",
        arguments -> {
          calls.real().close((long) arguments[0]);
          return null;
        });
    var refused = assertThrows(IOException.class, () -> builder().open());
    assertTrue(
        refused.getMessage().startsWith("the engine watched could not be opened: "),
        refused::getMessage);
  }

  @Test
  void anOpenWithoutMemoryKeepsNoProactor() {
    for (String call : new String[] {"attach", "explain"}) {
      withoutMemory(call);
      // It must be called.
      calls.replaceNext(
          "close",
          arguments -> {
            calls.real().close((long) arguments[0]);
            return null;
          });
      assertThrows(IOException.class, () -> builder().open());
      assertTrue(calls.allFailed(), call);
    }
  }

  private void withoutMemory(String call) {
    calls.replaceNext(
        call,
        arguments -> {
          throw new OutOfMemoryError("of the test");
        });
  }

  @Test
  void aSocketWithoutMemoryForItsDefaultsIsClosed() {
    withoutMemory("setSocketOption");
    // It must be called.
    calls.replaceNext(
        "closeDescriptor", arguments -> calls.real().closeDescriptor((int) arguments[0]));
    assertThrows(OutOfMemoryError.class, () -> demultiplexor.openStream(new Recorder()));
  }

  @Test
  void aListenerWithoutMemoryForItsBindIsClosed() {
    withoutMemory("bind");
    Recorder recorder = new Recorder();
    assertThrows(OutOfMemoryError.class, () -> demultiplexor.listen(loopback(), recorder));
    recorder.next(What.CLOSED);
  }

  @Test
  void socket() {
    calls.failNext("socket", -NO_DESCRIPTORS);
    saysNoDescriptors(
        assertThrows(IOException.class, () -> demultiplexor.openStream(new Recorder())));
  }

  @Test
  void withoutIpv6ThereIsIpv4() throws Exception {
    calls.failNext("socket", -Errors.NO_SUCH_FAMILY);
    Recorder accepting = new Recorder();
    AsynchChannel listener = listener(accepting);
    assertEquals(loopback().getAddress(), address(listener).getAddress());
    plainClient(listener).close();
    accepting.nextGood(What.ACCEPT);
    var refused =
        assertThrows(
            IllegalArgumentException.class,
            () -> {
              calls.failNext("socket", -Errors.NO_SUCH_FAMILY);
              demultiplexor.listen("::1", 0, new Recorder());
            });
    assertTrue(refused.getMessage().contains("IPv4 only"), refused::getMessage);
  }

  @Test
  void theDefaultsOfASocket() {
    calls.failNext("setSocketOption", -NO_SUCH_OPTION);
    // It must be called.
    calls.replaceNext(
        "closeDescriptor", arguments -> calls.real().closeDescriptor((int) arguments[0]));
    assertThrows(IOException.class, () -> demultiplexor.openStream(new Recorder()));
  }

  @Test
  void bind() {
    calls.failNext("bind", -Errors.ADDRESS_IN_USE);
    assertThrows(BindException.class, () -> demultiplexor.listen(loopback(), new Recorder()));
  }

  @Test
  void listen() {
    calls.failNext("listen", -Errors.ADDRESS_IN_USE);
    assertThrows(BindException.class, () -> demultiplexor.listen(loopback(), new Recorder()));
  }

  @Test
  void connect() throws Exception {
    AsynchChannel channel = demultiplexor.datagram(loopback(), new Recorder());
    calls.failNext("connect", -Errors.ACCESS);
    assertThrows(BindException.class, () -> channel.connectDatagram(address(channel)));
    // Nothing is left of it.
    channel.connectDatagram(address(channel));
  }

  @Test
  void names() throws Exception {
    AsynchChannel channel = demultiplexor.datagram(loopback(), new Recorder());
    channel.connectDatagram(address(channel));
    calls.failNext("ownName", -IO_ERROR);
    assertThrows(IOException.class, channel::getLocalAddress);
    assertEquals(channel.getLocalAddress(), channel.getRemoteAddress());
    // Only the system knows what a wildcard stands for.
    int port = address(channel).getPort();
    for (boolean fails : new boolean[] {false, true}) {
      AsynchChannel other = demultiplexor.openDatagram(new Recorder());
      if (fails) {
        calls.failNext("peerName", -IO_ERROR);
      }
      other.connectDatagram(new InetSocketAddress("0.0.0.0", port));
      InetSocketAddress peer = (InetSocketAddress) other.getRemoteAddress();
      assertEquals(port, peer.getPort());
      assertEquals(fails, peer.getAddress().isAnyLocalAddress());
    }
  }

  @Test
  void nameOfAPeerThatHasResetAlready() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = listener(recorder);
    calls.failNext("peerName", -Errors.NOT_CONNECTED);
    try (Socket client = plainClient(listener)) {
      assertNull(recorder.nextGood(What.ACCEPT).accepted().getRemoteAddress());
    }
  }

  @Test
  void options() throws Exception {
    AsynchChannel channel = demultiplexor.openStream(new Recorder());
    calls.failNext("setSocketOption", -NO_SUCH_OPTION);
    assertThrows(
        IOException.class, () -> channel.setOption(StandardSocketOptions.TCP_NODELAY, true));
    calls.failNext("getSocketOption", -NO_SUCH_OPTION);
    assertThrows(IOException.class, () -> channel.getOption(StandardSocketOptions.TCP_NODELAY));
  }

  // -- working -----------------------------------------------------------------------------------

  @Test
  void adopt() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.openStream(recorder);
    calls.failNext("adopt", NO_FREE_HANDLES);
    channel.connect(loopback());
    Completion failed = recorder.nextFailed(What.CONNECT, IOException.class);
    assertTrue(failed.error().getMessage().contains("handle"), failed::toString);
    channel.close();
    assertEquals(CloseReason.REQUESTED, recorder.next(What.CLOSED).reason());
  }

  @Test
  void adoptWithoutMemoryHasClosedTheDescriptor() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.openStream(recorder);
    calls.replaceNext(
        "adopt",
        arguments -> {
          calls.real().closeDescriptor((int) arguments[1]);
          return Errors.OUT_OF_MEMORY;
        });
    channel.connect(loopback());
    recorder.nextFailed(What.CONNECT, IOException.class);
    channel.close();
    // A second close of the number would be an error, or hit a stranger.
    recorder.next(What.CLOSED);
    assertEquals(null, takeReported());
  }

  @Test
  void noOtherThreadUsesADescriptorThatAFailedAdoptHasClosed() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.openStream(recorder);
    var asked = new CompletableFuture<Void>();
    Thread other =
        new Thread(
            () -> {
              try {
                channel.getLocalAddress();
                asked.complete(null);
              } catch (Throwable e) {
                asked.completeExceptionally(e);
              }
            });
    calls.replaceNext(
        "adopt",
        arguments -> {
          calls.real().closeDescriptor((int) arguments[1]);
          other.start();
          while (!asked.isDone() && other.getState() != Thread.State.BLOCKED) {
            Thread.onSpinWait();
          }
          return Errors.OUT_OF_MEMORY;
        });
    channel.connect(loopback());
    recorder.nextFailed(What.CONNECT, IOException.class);
    assertInstanceOf(
        ClosedChannelException.class, Patience.awaitFailure(asked, "the answer for the address"));
    channel.close();
    recorder.next(What.CLOSED);
  }

  @Test
  void accept() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = listener(recorder);
    calls.failNext("accept", -ABORTED);
    plainClient(listener).close();
    recorder.nextGood(What.ACCEPT);
    assertEquals(1, demultiplexor.getAcceptBackOffs());
    // The next one is tried first, and waits if there is no connection.
    calls.failNext("accept", -Errors.AGAIN);
    listener.accept();
    onLane(listener, () -> assertTrue(calls.allFailed()));
    // The peer has closed: there is nothing to accept, and the accept stays pending.
    calls.failNext("accept", -Errors.AGAIN);
    plainClient(listener).close();
    recorder.nextGood(What.ACCEPT);
    // The error of a first try is put off like any other one.
    calls.failNext("accept", -NO_DESCRIPTORS);
    listener.accept();
    plainClient(listener).close();
    recorder.nextGood(What.ACCEPT);
    assertEquals(2, demultiplexor.getAcceptBackOffs());
  }

  private void lackDescriptors(AtomicBoolean lack) {
    calls.replaceNext(
        "accept",
        arguments -> {
          if (!lack.get()) {
            return calls.real().accept((int) arguments[0]);
          }
          lackDescriptors(lack);
          return -NO_DESCRIPTORS;
        });
  }

  @Test
  void anAcceptThatIsPutOffCanBeCancelled() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = demultiplexor.listen(loopback(), recorder);
    AtomicBoolean lack = new AtomicBoolean(true);
    lackDescriptors(lack);
    long accept = listener.accept();
    try (Socket client = plainClient(listener)) {
      while (demultiplexor.getAcceptBackOffs() == 0) {
        Thread.onSpinWait();
      }
      assertTrue(listener.cancel(accept));
      recorder.nextFailed(What.ACCEPT, OperationCancelledException.class);
      // Nothing is left that would try it again.
      long backOffs = demultiplexor.getAcceptBackOffs();
      Patience.await(demultiplexor.schedule(Duration.ofMillis(40), () -> {}), "a later time");
      assertEquals(backOffs, demultiplexor.getAcceptBackOffs());
      lack.set(false);
      listener.accept();
      AsynchChannel accepted = recorder.nextGood(What.ACCEPT).accepted();
      assertEquals(client.getLocalSocketAddress(), accepted.getRemoteAddress());
    }
  }

  @Test
  void cancelComesTooLate() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      long read = connection.channel().read(ByteBuffer.allocate(1));
      // A timer ends in a later turn, and then the library has the read.
      Patience.await(connection.channel().futures().startTimer(Duration.ZERO), "a later turn");
      calls.failNext("cancel", Errors.NO_ENTRY);
      assertTrue(connection.channel().cancel(read));
      onLane(connection.channel(), () -> {});
      connection.peer().getOutputStream().write('x');
      assertEquals("x", recorder.nextGood(What.READ).text());
    }
  }

  @Test
  void aPooledReadThatIsReadyWhenItWasCancelledTakesNoBytes() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      long read = connection.channel().readPooled();
      Patience.await(connection.channel().futures().startTimer(Duration.ZERO), "a later turn");
      calls.failNext("cancel", Errors.NO_ENTRY);
      assertTrue(connection.channel().cancel(read));
      onLane(connection.channel(), () -> {});
      connection.peer().getOutputStream().write('x');
      recorder.nextFailed(What.READ, OperationCancelledException.class);
      connection.channel().readPooled();
      assertEquals("x", recorder.nextGood(What.READ).text());
    }
  }

  @Test
  void aPooledReadThatIsReadyAndWaitsForASlotCanBeCancelled() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      long read = channel.readPooled();
      Patience.await(channel.futures().startTimer(Duration.ZERO), "a later turn");
      Thread cancelling = new Thread(() -> channel.cancel(read));
      refuseNext(
          Errors.AGAIN,
          () -> {
            cancelling.start();
            Patience.await(cancelling);
          });
      connection.peer().getOutputStream().write('x');
      recorder.nextFailed(What.READ, OperationCancelledException.class);
      channel.readPooled();
      assertEquals("x", recorder.nextGood(What.READ).text());
    }
  }

  @Test
  void shutdown() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      calls.failNext("shutdown", -IO_ERROR);
      connection.channel().shutdownOutput();
      recorder.nextFailed(What.WRITE, IOException.class);
      // The peer has reset the connection: both halves have ended already.
      calls.failNext("shutdown", -Errors.NOT_CONNECTED);
      connection.channel().shutdownOutput();
      recorder.nextGood(What.WRITE);
    }
  }

  /** The system reports a loss once, and this call has it. */
  private void lossHasNoEnd(String call) throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      ByteBuffer buffer = ByteBuffer.allocate(1);
      calls.failNext(call, -ABORTED);
      if (call.equals("send")) {
        assertThrows(SocketException.class, () -> channel.tryWrite(buffer));
      } else {
        assertThrows(SocketException.class, () -> channel.tryRead(buffer));
      }
      connection.peer().shutdownOutput();
      channel.read(buffer);
      recorder.nextFailed(What.READ, SocketException.class);
      assertThrows(SocketException.class, () -> channel.tryRead(buffer.clear()));
    }
  }

  @Test
  void aLossThatAWriteHasFoundIsNoEndForReads() throws Exception {
    lossHasNoEnd("send");
  }

  @Test
  void aLossThatAReadHasFoundIsNoEndForReads() throws Exception {
    lossHasNoEnd("receive");
  }

  /** A write of another thread is told of the loss, and the lane's read finds the end before. */
  @Test
  void anEndWaitsForTheWriteThatMayKnowOfALoss() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      channel.read(ByteBuffer.allocate(1));
      AtomicReference<Thread> lane = new AtomicReference<>();
      onLane(channel, () -> lane.set(Thread.currentThread()));
      calls.replaceNext(
          "send",
          arguments -> {
            assertDoesNotThrow(() -> connection.peer().shutdownOutput());
            while (recorder.waiting() == 0 && lane.get().getState() != Thread.State.BLOCKED) {
              Thread.onSpinWait();
            }
            return -ABORTED;
          });
      assertThrows(SocketException.class, () -> channel.tryWrite(ByteBuffer.allocate(1)));
      recorder.nextFailed(What.READ, SocketException.class);
    }
  }

  /** Of those that are no loss of the connection. */
  @Test
  void aWriteThatFindsNoRoomInTheSystemLosesNothing() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      calls.failNext("send", -NO_BUFFERS);
      assertThrows(SocketException.class, () -> channel.tryWrite(ByteBuffer.allocate(1)));
      connection.peer().shutdownOutput();
      channel.read(ByteBuffer.allocate(1));
      assertEquals(0, recorder.nextGood(What.READ).bytes());
    }
  }

  @Test
  void closeOfASocketThatWasNeverStarted() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.openStream(recorder);
    calls.replaceNext(
        "closeDescriptor",
        arguments -> {
          calls.real().closeDescriptor((int) arguments[0]);
          return -IO_ERROR;
        });
    channel.close();
    recorder.next(What.CLOSED);
    assertEquals(IOException.class, takeReported().getClass().getSuperclass());
  }

  @Test
  void aCloseWithoutMemoryIsMadeAgain() throws Exception {
    Recorder recorder = new Recorder();
    Recorder accepting = new Recorder(() -> recorder);
    try (Socket peer = plainClient(listener(accepting))) {
      AsynchChannel channel = accepting.nextGood(What.ACCEPT).accepted();
      AtomicLong pause = new AtomicLong();
      lackMemoryToClose(3, pause);
      channel.close();
      recorder.next(What.CLOSED);
      // Neither at once, which would burn the processor, nor when something else happens.
      assertEquals(NativeEngine.MEMORY_PAUSE, pause.get());
      assertEquals(-1, peer.getInputStream().read());
    }
  }

  private void lackMemoryToClose(int times, AtomicLong pause) {
    calls.replaceNext(
        "closeDescriptor",
        arguments -> {
          if (times > 1) {
            lackMemoryToClose(times - 1, pause);
          }
          calls.replaceNext(
              "exchange",
              exchange -> {
                pause.set((long) exchange[4]);
                return realExchange(exchange);
              });
          throw new OutOfMemoryError("of the test");
        });
  }

  @Test
  void closeWithLingerGoesOnWithoutWhatIsTold() throws Exception {
    for (String call : new String[] {"getSocketOption", "setOption"}) {
      Recorder recorder = new Recorder();
      try (Connection connection = connected(recorder)) {
        connection.channel().setOption(StandardSocketOptions.SO_LINGER, 1);
        calls.failNext(call, call.equals("setOption") ? NO_SUCH_OPTION : -NO_SUCH_OPTION);
        connection.channel().close();
        recorder.next(What.CLOSED);
      }
    }
  }

  @Test
  void anOperationThatTheLibraryDoesNotTake() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      refuseNext(Errors.INVALID);
      connection.channel().write(buffer("lost"));
      recorder.nextFailed(What.WRITE, IOException.class);
      // Those behind it are not lost.
      connection.channel().write(buffer("kept"));
      recorder.nextGood(What.WRITE);
      assertEquals("kept", new String(connection.peer().getInputStream().readNBytes(4)));
    }
  }

  @Test
  void aLibraryWithoutFreeSlotsIsAskedAgain() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      refuseNext(Errors.AGAIN);
      connection.channel().write(buffer("late"));
      recorder.nextGood(What.WRITE);
      assertEquals("late", new String(connection.peer().getInputStream().readNBytes(4)));
    }
  }

  /** The first operation of the next exchange that has one is not taken. */
  private void refuseNext(int whyNot) {
    refuseNext(whyNot, () -> {});
  }

  private void refuseNext(int whyNot, Runnable meanwhile) {
    calls.replaceNext(
        "exchange",
        arguments -> {
          MemorySegment batch =
              MemorySegment.ofAddress((long) arguments[1]).reinterpret(Layouts.Batch.SIZE);
          if (batch.get(ValueLayout.JAVA_INT, Layouts.Batch.COUNT) == 0) {
            refuseNext(whyNot, meanwhile);
            return realExchange(arguments);
          }
          meanwhile.run();
          batch.set(ValueLayout.JAVA_INT, Layouts.Batch.TAKEN, 0);
          batch.set(ValueLayout.JAVA_INT, Layouts.Batch.WHY_NOT, whyNot);
          return 0;
        });
  }

  @Test
  void aWakeUpWhileTheFirstOfSeveralBatchesIsHandedOverEndsTheWait() throws Exception {
    List<AsynchChannel> channels = new ArrayList<>();
    for (int i = 0; i < 2 * NativeEngine.BATCH; i++) {
      channels.add(demultiplexor.datagram(loopback(), new Recorder()));
    }
    CompletableFuture<Void> posted = new CompletableFuture<>();
    Thread other = new Thread(() -> demultiplexor.post(() -> posted.complete(null)));
    demultiplexor.post(
        () -> {
          for (AsynchChannel channel : channels) {
            channel.read(ByteBuffer.allocateDirect(1));
          }
          calls.replaceNext(
              "exchange",
              arguments -> {
                // It finds the lane asleep.
                other.start();
                Patience.await(other);
                return realExchange(arguments);
              });
        });
    Patience.await(posted, "the task of the other thread");
  }

  private int realExchange(Object[] arguments) {
    return calls
        .real()
        .exchange(
            (long) arguments[0],
            (long) arguments[1],
            (long) arguments[2],
            (int) arguments[3],
            (long) arguments[4]);
  }

  /** The next completion says that the library's engine is lost. */
  private void loseEngine() {
    calls.replaceNext(
        "exchange",
        arguments -> {
          int brought = realExchange(arguments);
          if (brought <= 0) {
            loseEngine();
          } else {
            MemorySegment.ofAddress((long) arguments[2])
                .reinterpret(Layouts.Completion.SIZE)
                .set(ValueLayout.JAVA_INT, Layouts.Completion.ERROR, Errors.ENGINE_LOST);
          }
          return brought;
        });
  }

  @Test
  void aLostEngineEndsItsChannelsAndRetriesNoAccept() throws Exception {
    ConcurrentLinkedQueue<Throwable> reported = new ConcurrentLinkedQueue<>();
    Demultiplexor broken = builder().exceptionHandler(reported::add).open();
    Recorder accepting = new Recorder();
    AsynchChannel listener = broken.listen(loopback(), accepting);
    listener.accept();
    onLane(listener, this::loseEngine);
    try (Socket peer = plainClient(listener)) {
      Patience.await(broken.terminated(), "the end");
    }
    accepting.nextFailed(What.ACCEPT, IOException.class);
    assertEquals(CloseReason.ENGINE_FAILED, accepting.next(What.CLOSED).reason());
    assertEquals(0, broken.getAcceptBackOffs());
    assertTrue(reported.peek().getMessage().contains("taken away"));
  }

  @Test
  void exchange() throws Exception {
    ConcurrentLinkedQueue<Throwable> reported = new ConcurrentLinkedQueue<>();
    Demultiplexor broken = builder().exceptionHandler(reported::add).open();
    Recorder recorder = new Recorder();
    try (Connection connection = connected(broken, recorder)) {
      AsynchChannel channel = connection.channel();
      channel.read(ByteBuffer.allocateDirect(16));
      channel.write(ByteBuffer.allocate(8 << 20));
      onLane(channel, () -> {});
      channel.post(() -> calls.failNext("exchange", -IO_ERROR));
      Patience.await(broken.terminated(), "the end");
      recorder.nextFailed(What.READ, IOException.class);
      recorder.nextFailed(What.WRITE, IOException.class);
      assertEquals(CloseReason.ENGINE_FAILED, recorder.next(What.CLOSED).reason());
      assertTrue(reported.poll().getMessage().contains("Input/output error"));
      // The library has closed the descriptor, whose number may be a stranger's by now.
      assertNull(reported.poll());
      // The descriptor was closed: the peer sees the end, or a reset.
      connection.peer().setSoTimeout(60_000);
      try {
        connection.peer().getInputStream().readAllBytes();
      } catch (IOException e) {
        assertTrue(e.getMessage().contains("reset"), e::toString);
      }
    }
  }

  /** The library closes them before the lane tells its channels. */
  @Test
  void noOtherThreadUsesTheDescriptorsOfALostEngine() throws Exception {
    Demultiplexor broken = builder().exceptionHandler(error -> {}).open();
    Recorder recorder = new Recorder();
    try (Connection connection = connected(broken, recorder)) {
      AsynchChannel channel = connection.channel();
      channel.read(ByteBuffer.allocateDirect(16));
      onLane(channel, () -> {});
      List<Throwable> refused = new ArrayList<>();
      calls.replaceNext(
          "close",
          arguments -> {
            calls.real().close((long) arguments[0]);
            ByteBuffer buffer = ByteBuffer.allocate(1);
            refused.add(assertThrows(IOException.class, () -> channel.tryWrite(buffer)));
            refused.add(assertThrows(IOException.class, channel::getLocalAddress));
            return null;
          });
      channel.post(() -> calls.failNext("exchange", -IO_ERROR));
      Patience.await(broken.terminated(), "the end");
      assertEquals(2, refused.size());
      refused.forEach(one -> assertInstanceOf(ClosedChannelException.class, one));
      recorder.nextFailed(What.READ, IOException.class);
      assertEquals(CloseReason.ENGINE_FAILED, recorder.next(What.CLOSED).reason());
    }
  }

  // -- what numbers mean -------------------------------------------------------------------------

  @Test
  void errorsAreTheExceptionsOfJavaNio() {
    Map<Integer, Class<? extends Exception>> expected =
        Map.ofEntries(
            Map.entry(Errors.IS_CONNECTED, AlreadyConnectedException.class),
            Map.entry(Errors.ALREADY, ConnectionPendingException.class),
            Map.entry(Errors.NOT_CONNECTED, NotYetConnectedException.class),
            Map.entry(Errors.HANDLE_CLOSED, ClosedChannelException.class),
            Map.entry(Errors.REFUSED, ConnectException.class),
            Map.entry(Errors.TIMED_OUT, ConnectException.class),
            Map.entry(Errors.NO_ROUTE, NoRouteToHostException.class),
            Map.entry(Errors.ADDRESS_IN_USE, BindException.class),
            Map.entry(Errors.ADDRESS_NOT_AVAILABLE, BindException.class),
            Map.entry(Errors.ACCESS, BindException.class),
            Map.entry(Errors.PROTOCOL, ProtocolException.class));
    expected.forEach(
        (number, type) -> assertEquals(type, Errors.of(calls.real(), number).getClass()));
    // The library's own errors and all of the system's have a text.
    for (int own = 10001; own <= Errors.ENGINE_LOST; own++) {
      String text = Errors.text(calls.real(), own);
      assertTrue(text.length() > 5, () -> text);
    }
    for (int number = 1; number < 134; number++) {
      Exception error = Errors.of(calls.real(), number);
      assertTrue(error instanceof IOException || error instanceof IllegalStateException);
    }
    assertThrows(
        AlreadyBoundException.class, () -> Errors.checkBind(calls.real(), -Errors.INVALID));
  }
}
