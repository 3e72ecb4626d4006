package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.DelimiterNotFoundException;
import io.baton.OpRead;
import io.baton.OpWrite;
import io.baton.OperationCancelledException;
import io.baton.OperationTimedOutException;
import io.baton.test.Completion.What;
import java.io.EOFException;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.BindException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NotYetBoundException;
import java.nio.channels.NotYetConnectedException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Connections: rules 1 to 4. */
public abstract class StreamContract extends EngineContract {
  private static final byte[] NEW_LINE = {'\n'};

  @Test
  void rule1RefusedConnectIsACompletion() throws Exception {
    InetSocketAddress nobody;
    try (ServerSocket gone = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      nobody = (InetSocketAddress) gone.getLocalSocketAddress();
    }
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.connect(nobody, recorder);
    recorder.nextFailed(What.CONNECT, IOException.class);
    channel.close();
    recorder.next(What.CLOSED);
  }

  @Test
  void rule1NoHandlerRunsInsideAStart() throws Exception {
    AtomicBoolean starting = new AtomicBoolean();
    CompletableFuture<Boolean> startedInside = new CompletableFuture<>();
    Recorder recorder =
        new Recorder() {
          private int left = 100;

          @Override
          public void onWriteCompleted(OpWrite opWrite) {
            if (starting.get() || left-- == 0) {
              startedInside.complete(starting.get());
              return;
            }
            starting.set(true);
            opWrite.getAsynchChannel().write(buffer("x"));
            starting.set(false);
          }
        };
    try (Connection connection = connected(recorder)) {
      connection.channel().write(buffer("x"));
      assertFalse(Patience.await(startedInside, "the last of 100 writes"));
      assertEquals(101, connection.peer().getInputStream().readNBytes(101).length);
    }
  }

  @Test
  void rule1EveryStartCompletesOnce() throws Exception {
    Recorder recorder = new Recorder();
    int number = 500;
    try (Connection connection = connected(recorder)) {
      for (int i = 0; i < number; i++) {
        connection.channel().write(buffer("0123456789"));
      }
      for (int i = 0; i < number; i++) {
        assertEquals(10, recorder.nextGood(What.WRITE).bytes());
      }
      connection.channel().close();
      recorder.next(What.CLOSED);
      assertEquals(0, recorder.waiting());
    }
  }

  @Test
  void acceptsAndEchoesOnBothSides() throws Exception {
    Recorder accepting = new Recorder();
    AsynchChannel listener = listener(accepting);
    Recorder client = new Recorder();
    AsynchChannel channel = demultiplexor.connect(address(listener), client);
    // Behind the connect.
    channel.write(buffer("ping"));
    AsynchChannel server = accepting.nextGood(What.ACCEPT).accepted();
    client.nextGood(What.CONNECT);
    client.nextGood(What.WRITE);
    assertEquals(channel.getLocalAddress(), server.getRemoteAddress());
    ByteBuffer room = ByteBuffer.allocate(16);
    server.futures().readExactly(room.limit(4)).get();
    assertEquals(ByteBuffer.wrap(bytes("ping")), room);
  }

  @Test
  void aConnectionThatWaitsIsTakenWithoutTheLane() throws Exception {
    Recorder accepting = new Recorder();
    AsynchChannel listener = demultiplexor.listen(loopback(), accepting);
    Recorder handler = new Recorder();
    AtomicReference<AsynchChannel> taken = new AtomicReference<>();
    assertFalse(listener.tryAccept(opAccept -> assertTrue(false, "nothing waits")));
    try (Socket client = plainClient(listener)) {
      boolean has =
          listener.tryAccept(
              opAccept -> {
                try {
                  taken.set(opAccept.open(handler));
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              });
      if (!has) {
        // An engine may leave it to the lanes.
        listener.accept();
        taken.set(accepting.nextGood(What.ACCEPT).accepted());
      }
      assertEquals(client.getLocalSocketAddress(), taken.get().getRemoteAddress());
      taken.get().futures().write(buffer("hello"));
      assertEquals("hello", new String(client.getInputStream().readNBytes(5)));
    }
    // One that is not taken is closed; those that are pending go first.
    try (Socket client = plainClient(listener)) {
      if (!listener.tryAccept(opAccept -> {})) {
        listener.accept();
        accepting.nextGood(What.ACCEPT).accepted().close();
      }
      assertEquals(-1, client.getInputStream().read());
    }
    listener.accept();
    assertFalse(listener.tryAccept(opAccept -> assertTrue(false, "an accept is pending")));
    listener.close();
    assertFalse(listener.tryAccept(opAccept -> assertTrue(false, "it is closed")));
  }

  @Test
  void rule3WritesAndTheirCompletionsKeepTheOrderOfTheStarts() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      StringBuilder all = new StringBuilder();
      long[] numbers = new long[200];
      for (int i = 0; i < numbers.length; i++) {
        String text = "message " + i + ";";
        all.append(text);
        numbers[i] = connection.channel().write(buffer(text));
      }
      long end = connection.channel().shutdownOutput();
      assertEquals(all.toString(), new String(connection.peer().getInputStream().readAllBytes()));
      for (long number : numbers) {
        assertEquals(number, recorder.nextGood(What.WRITE).activation());
      }
      Completion last = recorder.nextGood(What.WRITE);
      assertEquals(end, last.activation());
      assertNull(last.buffer());
    }
  }

  @Test
  void rule3ReadsCompleteInTheOrderOfTheStarts() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      long[] numbers = new long[50];
      for (int i = 0; i < numbers.length; i++) {
        numbers[i] = connection.channel().readExactly(ByteBuffer.allocate(3));
      }
      for (int i = 0; i < numbers.length; i++) {
        connection.peer().getOutputStream().write(bytes(String.format("%03d", i)));
      }
      for (int i = 0; i < numbers.length; i++) {
        Completion read = recorder.nextGood(What.READ);
        assertEquals(numbers[i], read.activation());
        assertEquals(String.format("%03d", i), read.text());
      }
    }
  }

  @Test
  void rule3ReadsAndWritesAreIndependent() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.channel().read(ByteBuffer.allocate(10));
      connection.channel().write(buffer("out"));
      recorder.nextGood(What.WRITE);
      connection.peer().getOutputStream().write(bytes("in"));
      assertEquals("in", recorder.nextGood(What.READ).text());
    }
  }

  @Test
  void rule4AReadMayBeShortAndTheEndIsZero() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      ByteBuffer room = ByteBuffer.allocate(100).position(7);
      connection.channel().read(room);
      connection.peer().getOutputStream().write(bytes("short"));
      Completion read = recorder.nextGood(What.READ);
      assertSame(room, read.buffer());
      assertEquals("short", read.text());
      assertEquals(7, room.position());
      assertEquals(12, room.limit());

      connection.peer().shutdownOutput();
      for (int i = 0; i < 3; i++) {
        connection.channel().read(room.clear());
        assertEquals(0, recorder.nextGood(What.READ).bytes());
      }
    }
  }

  @Test
  void rule4ALostConnectionHasNoEnd() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.peer().setSoLinger(true, 0); // a reset, which the system reports once
      connection.peer().close();
      connection.channel().write(ByteBuffer.allocate(1));
      recorder.nextFailed(What.WRITE, IOException.class);
      connection.channel().read(ByteBuffer.allocate(1));
      recorder.nextFailed(What.READ, IOException.class);
      connection.channel().readExactly(ByteBuffer.allocate(1));
      assertFalse(
          recorder.nextFailed(What.READ, IOException.class).error() instanceof EOFException);
    }
  }

  @Test
  void rule4AnEndedStreamIsReadToItsEndAfterAFailedWrite() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.peer().getOutputStream().write(bytes("answer"));
      connection.peer().close();
      Completion write;
      do {
        connection.channel().write(ByteBuffer.allocate(1));
        write = recorder.next(What.WRITE);
      } while (write.error() == null);
      ByteBuffer room = ByteBuffer.allocate(10);
      connection.channel().read(room);
      assertEquals("answer", recorder.nextGood(What.READ).text());
      connection.channel().read(room.clear());
      assertEquals(0, recorder.nextGood(What.READ).bytes());
    }
  }

  @Test
  void rule4ReadExactlyTakesManyPieces() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.channel().readExactly(ByteBuffer.allocateDirect(10));
      for (byte one : bytes("0123456789")) {
        connection.peer().getOutputStream().write(one);
      }
      assertEquals("0123456789", recorder.nextGood(What.READ).text());

      connection.channel().readExactly(ByteBuffer.allocate(10));
      connection.peer().getOutputStream().write(bytes("only"));
      connection.peer().shutdownOutput();
      Completion cut = recorder.nextFailed(What.READ, EOFException.class);
      assertEquals("only", cut.text());
      assertEquals(4, cut.bytes());
    }
  }

  @Test
  void rule4ReadUntilFindsLinesWithoutLoss() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.peer().getOutputStream().write(bytes("one\ntwo\nthr"));
      ByteBuffer room = ByteBuffer.allocate(16);
      connection.channel().readUntil(room, NEW_LINE);
      assertEquals("one\n", line(recorder.nextGood(What.READ)));
      connection.channel().readUntil(room.compact(), NEW_LINE);
      assertEquals("two\n", line(recorder.nextGood(What.READ)));
      byte[] delimiter = NEW_LINE.clone();
      connection.channel().readUntil(room.compact(), delimiter, Patience.PATIENCE);
      // The program's again.
      delimiter[0] = 0;
      connection.peer().getOutputStream().write(bytes("ee\n"));
      assertEquals("three\n", line(recorder.nextGood(What.READ)));
    }
  }

  /** The last piece ends the read, which changes the position. */
  private static void awaitReceived(AsynchChannel channel, ByteBuffer room, int bytes) {
    AtomicInteger received = new AtomicInteger();
    long end = System.nanoTime() + Patience.PATIENCE.toNanos();
    while (received.get() < bytes && room.limit() == room.capacity()) {
      assertTrue(end - System.nanoTime() > 0, "a byte did not come");
      onLane(channel, () -> received.set(room.position()));
    }
  }

  @Test
  void rule4ReadUntilFindsADelimiterThatComesInPieces() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      ByteBuffer room = ByteBuffer.allocate(32);
      byte[] delimiter = bytes("\r\n\r\n");
      connection.channel().readUntil(room, delimiter);
      // The program's again.
      Arrays.fill(delimiter, (byte) 'h');
      int sent = 0;
      for (byte one : bytes("head\r\n\r\r\n\r\n")) {
        connection.peer().getOutputStream().write(one);
        awaitReceived(connection.channel(), room, ++sent);
      }
      assertEquals("head\r\n\r\r\n\r\n", line(recorder.nextGood(What.READ)));
    }
  }

  @Test
  void onlyAReadUntilHasADelimiter() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      for (int i = 0; i < 3; i++) {
        connection.peer().getOutputStream().write(bytes("a\n"));
        connection.channel().readUntil(ByteBuffer.allocate(8), NEW_LINE);
        assertEquals(2, recorder.nextGood(What.READ).delimiterEnd());
        onLane(connection.channel(), () -> {});
        connection.peer().getOutputStream().write(bytes("b"));
        connection.channel().read(ByteBuffer.allocate(8));
        assertEquals(-1, recorder.nextGood(What.READ).delimiterEnd());
      }
    }
  }

  @Test
  void rule4ReadUntilSaysWhyItCannotFind() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.peer().getOutputStream().write(bytes("too long a line\nrest"));
      connection.channel().readUntil(ByteBuffer.allocate(8), NEW_LINE);
      Completion full = recorder.nextFailed(What.READ, DelimiterNotFoundException.class);
      assertEquals("too long", full.text());
      assertEquals(-1, full.delimiterEnd());
      connection.channel().readUntil(ByteBuffer.allocate(64), NEW_LINE);
      assertEquals(" a line\n", line(recorder.nextGood(What.READ)));
      connection.peer().shutdownOutput();
      connection.channel().readUntil(ByteBuffer.allocate(64), NEW_LINE);
      recorder.nextFailed(What.READ, EOFException.class);
      // A buffer that is full already.
      connection.channel().readUntil(buffer("full").position(4), NEW_LINE);
      recorder.nextFailed(What.READ, DelimiterNotFoundException.class);
      connection.channel().readUntil(buffer("a\nb").position(3), NEW_LINE);
      assertEquals(2, recorder.nextGood(What.READ).delimiterEnd());
    }
  }

  @Test
  void rule4AWriteIsWhole() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      byte[] much = new byte[8 << 20];
      for (int i = 0; i < much.length; i++) {
        much[i] = (byte) (i * 31 >> 3);
      }
      connection.channel().write(ByteBuffer.wrap(much));
      assertArrayEquals(much, connection.peer().getInputStream().readNBytes(much.length));
      Completion written = recorder.nextGood(What.WRITE);
      assertEquals(much.length, written.bytes());
      assertFalse(written.buffer().hasRemaining());
    }
  }

  /** A method of its own, so that no local variable keeps the buffers. */
  private static List<WeakReference<?>> moved(Connection connection, Recorder recorder)
      throws Exception {
    AsynchChannel channel = connection.channel();
    ByteBuffer out = buffer("x");
    ByteBuffer in = ByteBuffer.allocate(1);
    channel.write(out);
    recorder.nextGood(What.WRITE);
    connection.peer().getOutputStream().write('y');
    channel.read(in);
    recorder.nextGood(What.READ);
    CompletableFuture<Integer> future = channel.futures().write(buffer("z"));
    Patience.await(future, "the write");
    return List.of(new WeakReference<>(out), new WeakReference<>(in), new WeakReference<>(future));
  }

  @Test
  void anOpenChannelKeepsNothingOfItsCompletedOperations() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      for (WeakReference<?> one : moved(connection, recorder)) {
        Patience.awaitForgotten(one, "a buffer or a future");
      }
      assertTrue(connection.channel().isOpen());
    }
  }

  @Test
  void aListenerThatCannotBeBoundIsClosed() throws Exception {
    AsynchChannel taken = demultiplexor.listen(loopback(), new Recorder());
    Recorder recorder = new Recorder();
    assertThrows(BindException.class, () -> demultiplexor.listen(address(taken), recorder));
    recorder.next(What.CLOSED);
  }

  @Test
  void aBacklogBoundsTheConnectionsThatWait() throws Exception {
    AsynchChannel listener = demultiplexor.openListener(new Recorder());
    listener.bind(loopback(), 1);
    try (Socket first = plainClient(listener);
        Socket second = plainClient(listener)) {
      AsynchFutures third = demultiplexor.openStream(new Recorder()).futures();
      // The system does not answer any more.
      var connect = third.connect(address(listener), Duration.ofMillis(5));
      fails(OperationTimedOutException.class, connect);
    }
  }

  @Test
  void aPortIsFreeAgainWhereConnectionsHaveEnded() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = listener(recorder);
    InetSocketAddress address = address(listener);
    try (Socket client = plainClient(listener)) {
      AsynchChannel accepted = recorder.nextGood(What.ACCEPT).accepted();
      // The side that closes first remembers the connection for a minute.
      Patience.await(accepted.futures().close(), "the close");
      assertEquals(-1, client.getInputStream().read());
    }
    Patience.await(listener.futures().close(), "the close");
    demultiplexor.listen(address, new Recorder());
  }

  @Test
  void aStreamWhoseConnectWasCancelledCanOnlyBeClosed() throws Exception {
    AsynchFutures futures = demultiplexor.openStream(new Recorder()).futures();
    try (FullListener full = new FullListener()) {
      var connect = futures.connect(full.address());
      assertTrue(connect.cancel(false));
      fails(OperationCancelledException.class, connect);
      fails(ClosedChannelException.class, futures.write(buffer("x")));
    }
  }

  @Test
  void aClosedChannelRefusesTheCallsForItsSocket() throws Exception {
    Connection connection = connected(new Recorder());
    AsynchChannel stream = connection.channel();
    AsynchChannel datagram = demultiplexor.openDatagram(new Recorder());
    InetSocketAddress peer = address(demultiplexor.datagram(loopback(), new Recorder()));
    Patience.await(stream.futures().close(), "the close");
    Patience.await(datagram.futures().close(), "the close");
    Executable[] calls = {
      stream::getLocalAddress,
      stream::getRemoteAddress,
      stream::shutdownInput,
      () -> stream.bind(null),
      () -> stream.setOption(StandardSocketOptions.TCP_NODELAY, true),
      () -> stream.getOption(StandardSocketOptions.TCP_NODELAY),
      () -> datagram.connectDatagram(peer),
    };
    for (Executable call : calls) {
      assertThrows(ClosedChannelException.class, call);
    }
    connection.peer().close();
  }

  @Test
  void anErrorOfThePeerIsACompletion() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      connection.channel().read(ByteBuffer.allocate(10));
      connection.peer().setSoLinger(true, 0);
      connection.peer().close();
      recorder.nextFailed(What.READ, IOException.class);
      connection.channel().write(buffer("too late"));
      recorder.nextFailed(What.WRITE, IOException.class);
    }
  }

  @Test
  void thePeerKeepsTheNameThatTheProgramGaveIt() throws Exception {
    Recorder accepting = new Recorder();
    AsynchChannel listener = listener(accepting);
    InetAddress host = InetAddress.getByAddress("server.example", new byte[] {127, 0, 0, 1});
    Recorder client = new Recorder();
    AsynchChannel channel =
        demultiplexor.connect(new InetSocketAddress(host, address(listener).getPort()), client);
    client.nextGood(What.CONNECT);
    // A client of TLS compares the certificate with it.
    assertEquals("server.example", hostOf(channel));
    assertEquals(address(listener), channel.getRemoteAddress());
    // The other end knows the number only, unless the system is asked for the name.
    AsynchChannel accepted = accepting.nextGood(What.ACCEPT).accepted();
    assertEquals("127.0.0.1", hostOf(accepted));
  }

  private static String hostOf(AsynchChannel channel) throws IOException {
    return ((InetSocketAddress) channel.getRemoteAddress()).getHostString();
  }

  @Test
  void theAddressOfAPeerIsKnownAfterItsReset() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = listener(recorder);
    Socket client = plainClient(listener);
    AsynchChannel accepted = recorder.nextGood(What.ACCEPT).accepted();
    var read = accepted.futures().read(ByteBuffer.allocate(1));
    SocketAddress peer = client.getLocalSocketAddress();
    client.setSoLinger(true, 0);
    client.close();
    assertTrue(Patience.awaitFailure(read, "the read") instanceof IOException);
    assertEquals(peer, accepted.getRemoteAddress());
    assertEquals(address(listener), accepted.getLocalAddress());
  }

  @Test
  void readsAndWritesWaitForTheConnect() throws Exception {
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    var accepted = listener.futures().accept(new Recorder());
    AsynchChannel client = demultiplexor.openStream(new Recorder());
    var connect = new AtomicReference<CompletableFuture<Void>>();
    var reads = new ArrayList<CompletableFuture<?>>();
    // On the lane, so that the engine has both before either can be done.
    onLane(
        client,
        () -> {
          connect.set(client.futures().connect(address(listener)));
          reads.add(client.futures().read(ByteBuffer.allocate(1)));
          reads.add(client.futures().readPooled());
          reads.add(client.futures().write(buffer("x")));
        });
    Patience.await(connect.get(), "the connect");
    AsynchFutures server = Patience.await(accepted, "the accept").futures();
    assertEquals(1, Patience.await(server.read(ByteBuffer.allocate(9)), "the write"));
    Patience.await(server.write(buffer("ab")), "the answer");
    for (CompletableFuture<?> one : reads) {
      Patience.await(one, "a read or the write");
    }
  }

  @Test
  void aStreamThatIsNotConnectedMovesNothing() throws Exception {
    AsynchFutures futures = demultiplexor.openStream(new Recorder()).futures();
    fails(NotYetConnectedException.class, futures.read(ByteBuffer.allocate(1)));
    fails(NotYetConnectedException.class, futures.readPooled());
    fails(NotYetConnectedException.class, futures.write(buffer("x")));
    fails(NotYetConnectedException.class, futures.shutdownOutput());
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    Patience.await(futures.connect(address(listener)), "the connect");
    fails(AlreadyConnectedException.class, futures.connect(address(listener)));
    assertEquals(1, Patience.await(futures.write(buffer("x")), "the write"));
  }

  @Test
  void aStreamWhoseConnectHasFailedCanOnlyBeClosed() throws Exception {
    AsynchChannel nobody = demultiplexor.listen(loopback(), new Recorder());
    InetSocketAddress address = address(nobody);
    Patience.await(nobody.futures().close(), "the close");
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    AsynchChannel channel = demultiplexor.openStream(new Recorder());
    AsynchFutures futures = channel.futures();
    var connect = futures.connect(address);
    var write = futures.write(buffer("x"));
    var read = futures.read(ByteBuffer.allocate(1));
    fails(ConnectException.class, connect);
    fails(ClosedChannelException.class, write);
    fails(ClosedChannelException.class, read);
    fails(ClosedChannelException.class, futures.connect(address(listener)));
    assertTrue(channel.isOpen());
    assertEquals(0, channel.getQueuedBytes());
    Patience.await(futures.close(), "the close");
  }

  @Test
  void aWriteBehindTheEndOfOutputFails() throws Exception {
    try (Connection connection = connected(new Recorder())) {
      AsynchFutures futures = connection.channel().futures();
      Patience.await(futures.shutdownOutput(), "the end of output");
      Throwable why = Patience.awaitFailure(futures.write(buffer("x")), "a write behind it");
      // A subclass would say that the channel is closed.
      assertEquals(ClosedChannelException.class, why.getClass());
      Patience.await(futures.shutdownOutput(), "once more");
    }
  }

  @Test
  void rule3AStartOfTheLaneOvertakesNoneOfAnotherThread() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      onLane(
          channel,
          () -> {
            Thread other =
                new Thread(
                    () -> {
                      channel.write(buffer("a"));
                      channel.read(ByteBuffer.allocate(1));
                    });
            other.start();
            other.join();
            channel.write(buffer("b"));
            channel.read(ByteBuffer.allocate(2));
            // It has not begun, and can be cancelled.
            assertTrue(channel.cancel(channel.write(buffer("c"))));
            channel.write(buffer("d"));
          });
      assertEquals("abd", new String(connection.peer().getInputStream().readNBytes(3)));
      int cancelled = 0;
      for (int i = 0; i < 4; i++) {
        cancelled += recorder.next(What.WRITE).error() == null ? 0 : 1;
      }
      assertEquals(1, cancelled);
      connection.peer().getOutputStream().write('x');
      assertEquals(1, recorder.nextGood(What.READ).buffer().capacity());
      connection.peer().getOutputStream().write('y');
      assertEquals(2, recorder.nextGood(What.READ).buffer().capacity());
    }
  }

  @Test
  void aListenerThatIsNotBoundAcceptsNothing() throws Exception {
    AsynchChannel listener = demultiplexor.openListener(new Recorder());
    fails(NotYetBoundException.class, listener.futures().accept(new Recorder()));
    listener.bind(null);
    assertTrue(address(listener).getAddress().isAnyLocalAddress());
  }

  private static void fails(Class<? extends Throwable> type, CompletableFuture<?> future) {
    assertInstanceOf(type, Patience.awaitFailure(future, type.getSimpleName()));
  }

  @Test
  void optionsAndHalvesOfASocket() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      assertTrue(channel.getOption(StandardSocketOptions.TCP_NODELAY));
      assertTrue(channel.supportedOptions().contains(StandardSocketOptions.SO_KEEPALIVE));
      connection.peer().getOutputStream().write('a');
      channel.readPooled();
      recorder.nextGood(What.READ);
      connection.peer().getOutputStream().write('b');
      channel.shutdownInput();
      channel.read(ByteBuffer.allocate(10));
      assertEquals(0, recorder.nextGood(What.READ).bytes());
      channel.readPooled();
      assertEquals(0, recorder.nextGood(What.READ).bytes());
    }
  }

  @Test
  void anAcceptedConnectionThatIsNotTakenIsClosed() throws Exception {
    AsynchChannel listener =
        listener(
            new Recorder() {
              @Override
              public void onAcceptCompleted(io.baton.OpAccept opAccept) {}
            });
    try (Socket client = plainClient(listener)) {
      assertEquals(-1, client.getInputStream().read());
    }
  }

  @Test
  void handlersOfOneChannelStayWithOneThreadOfTheLibrary() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      CompletableFuture<Thread> lane = new CompletableFuture<>();
      connection.channel().post(() -> lane.complete(Thread.currentThread()));
      for (int i = 0; i < 100; i++) {
        connection.channel().write(buffer("x"));
        connection.peer().getOutputStream().write('y');
        connection.channel().read(ByteBuffer.allocate(1));
      }
      Thread only = Patience.await(lane, "the post");
      for (int i = 0; i < 200; i++) {
        recorder.nextAny();
      }
      assertEquals(java.util.Set.of(only), recorder.threads());
    }
  }

  @Test
  void theNextReadOfAHandlerSeesWhatIsLeft() throws Exception {
    CompletableFuture<String> all = new CompletableFuture<>();
    Recorder recorder =
        new Recorder() {
          private final StringBuilder text = new StringBuilder();

          @Override
          public void onReadCompleted(OpRead opRead) {
            if (opRead.getBytesCompleted() == 0) {
              all.complete(text.toString());
              return;
            }
            ByteBuffer buffer = opRead.getBuffer();
            while (buffer.hasRemaining()) {
              text.append((char) buffer.get());
            }
            opRead.getAsynchChannel().read(buffer.clear());
          }
        };
    try (Connection connection = connected(recorder)) {
      connection.peer().getOutputStream().write(bytes("a long text for a small buffer"));
      connection.peer().shutdownOutput();
      connection.channel().read(ByteBuffer.allocate(4));
      assertEquals("a long text for a small buffer", Patience.await(all, "the end"));
    }
  }

  private static String line(Completion read) {
    byte[] line = new byte[read.delimiterEnd() - read.buffer().position()];
    read.buffer().get(line);
    return new String(line);
  }
}
