package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.ChannelClosedException;
import io.baton.test.Completion.What;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Bad input gets an exception that names the argument, and starts nothing. */
public abstract class BadInputContract extends EngineContract {
  private static final ByteBuffer EMPTY = ByteBuffer.allocate(0);

  private static void refused(
      Class<? extends RuntimeException> type, String argument, Executable call) {
    RuntimeException refused = assertThrows(type, call);
    assertTrue(
        refused.getMessage().startsWith(argument + ": "),
        () -> "does not name " + argument + ": " + refused.getMessage());
  }

  private static void isNull(String argument, Executable call) {
    refused(NullPointerException.class, argument, call);
  }

  private static void isWrong(String argument, Executable call) {
    refused(IllegalArgumentException.class, argument, call);
  }

  @Test
  void buffers() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      AsynchChannel channel = connection.channel();
      ByteBuffer readOnly = ByteBuffer.allocate(8).asReadOnlyBuffer();
      isNull("buffer", () -> channel.read(null));
      isWrong("buffer", () -> channel.read(EMPTY));
      isWrong("buffer", () -> channel.read(readOnly));
      isNull("buffer", () -> channel.readExactly(null));
      isWrong("buffer", () -> channel.readExactly(EMPTY));
      isWrong("buffer", () -> channel.readExactly(readOnly));
      isNull("buffer", () -> channel.readUntil(null, bytes("\n")));
      isWrong("buffer", () -> channel.readUntil(EMPTY, bytes("\n")));
      isWrong("buffer", () -> channel.readUntil(readOnly, bytes("\n")));
      isNull("delimiter", () -> channel.readUntil(ByteBuffer.allocate(8), null));
      isWrong("delimiter", () -> channel.readUntil(ByteBuffer.allocate(8), new byte[0]));
      isNull("buffer", () -> channel.write((ByteBuffer) null));
      isWrong("buffer", () -> channel.write(EMPTY));
      isNull("block", () -> channel.write((io.baton.PooledBuffer) null));
      isNull("buffer", () -> channel.futures().read(null));
      isWrong("buffer", () -> channel.futures().write(EMPTY));
      // A read-only buffer can be written.
      channel.write(readOnly);
      recorder.nextGood(What.WRITE);
      assertEquals(0, recorder.waiting());
    }
  }

  @Test
  void timesAndOptions() throws Exception {
    try (Connection connection = connected(new Recorder())) {
      AsynchChannel channel = connection.channel();
      ByteBuffer room = ByteBuffer.allocate(8);
      isNull("timeout", () -> channel.read(room, null));
      isWrong("timeout", () -> channel.read(room, Duration.ZERO));
      isWrong("timeout", () -> channel.readExactly(room, Duration.ofSeconds(-1)));
      isNull("timeout", () -> channel.readPooled(null));
      isNull("delay", () -> channel.startTimer(null));
      isWrong("delay", () -> channel.startTimer(Duration.ofNanos(-1)));
      isWrong("time", () -> channel.setReadIdleTimeout(Duration.ofNanos(-1)));
      isNull("time", () -> channel.setWriteIdleTimeout(null));
      isNull("option", () -> channel.setOption(null, 1));
      isNull("action", () -> channel.post(null));
      isNull("deadline", () -> demultiplexor.stop(null));
      isWrong("delay", () -> demultiplexor.schedule(Duration.ofNanos(-1), () -> {}));
      isNull("action", () -> demultiplexor.schedule(Duration.ZERO, null));
      isNull("action", () -> demultiplexor.post(null));
    }
  }

  @Test
  void addresses() throws Exception {
    AsynchHandler handler = new Recorder();
    SocketAddress unresolved = InetSocketAddress.createUnresolved("nowhere.invalid", 1);
    isWrong("port", () -> demultiplexor.listen("127.0.0.1", 70_000, handler));
    isWrong("port", () -> demultiplexor.connect("127.0.0.1", 65_536, handler));
    demultiplexor.connect("127.0.0.1", 65_535, handler).close();
    isWrong("port", () -> demultiplexor.connect("127.0.0.1", -1, handler));
    isNull("host", () -> demultiplexor.connect(null, 1, handler));
    isNull("remote", () -> demultiplexor.connect(null, handler));
    isWrong("remote", () -> demultiplexor.connect(unresolved, handler));
    isNull("handler", () -> demultiplexor.connect(loopback(), null));
    isNull("local", () -> demultiplexor.listen(null, handler));
    isWrong("local", () -> demultiplexor.listen(unresolved, handler));
    isNull("handler", () -> demultiplexor.listen(loopback(), null));
    isNull("handler", () -> demultiplexor.datagram(loopback(), null));
    AsynchChannel stream = demultiplexor.openStream(handler);
    isNull("remote", () -> stream.connect(null));
    isWrong("remote", () -> stream.connect(unresolved));
    isWrong("backlog", () -> stream.bind(null, -1));
    AsynchChannel datagram = demultiplexor.openDatagram(handler);
    isNull("remote", () -> datagram.write(EMPTY, (SocketAddress) null));
    isNull("remote", () -> datagram.connectDatagram(null));
    SocketAddress unix = UnixDomainSocketAddress.of("x");
    isWrong("local", () -> demultiplexor.listen(unix, handler));
    isWrong("local", () -> demultiplexor.datagram(unix, handler));
    isWrong("local", () -> stream.bind(unix));
    isWrong("remote", () -> datagram.connectDatagram(unix));
    // The socket decides on it, so these complete by the error.
    isNamed(unix, Patience.awaitFailure(stream.futures().connect(unix), "the connect"));
    isNamed(unix, Patience.awaitFailure(datagram.futures().write(EMPTY, unix), "the write"));
  }

  private static void isNamed(SocketAddress address, Throwable refused) {
    assertInstanceOf(IllegalArgumentException.class, refused);
    String text = refused.getMessage();
    assertTrue(text.startsWith("remote: " + address) && text.contains("InetSocketAddress"), text);
  }

  @Test
  void constructors() throws Exception {
    AsynchHandler handler = new Recorder();
    try (SocketChannel raw = SocketChannel.open()) {
      isNull("demultiplexor", () -> new AsynchChannel(null, handler, raw));
      isNull("handler", () -> new AsynchChannel(demultiplexor, null, raw));
      isNull("channel", () -> new AsynchChannel(demultiplexor, handler, (SocketChannel) null));
    }
    isNull("path", () -> demultiplexor.file(null, handler));
    isNull("handler", () -> demultiplexor.file(Path.of("x"), null));
  }

  @Test
  void settings() {
    isWrong("the program: threads", () -> builder().threads(0).open());
    isWrong("the program: threads", () -> builder().set("threads", "many").open());
    isWrong("the program: operations_max", () -> builder().operationsMax(-1).open());
    isWrong("the program: file_threads", () -> builder().fileThreads(0).open());
    isWrong("the program: pooled_buffer_size", () -> builder().pooledBufferSize(0).open());
    isWrong("the program: pooled_buffers_max", () -> builder().pooledBuffersMax(0).open());
    isWrong("the program: write_bytes_max", () -> builder().writeBytesMax(0).open());
    isNull("factory", () -> builder().threadFactory(null));
    isNull("handler", () -> builder().exceptionHandler(null));
  }

  @Test
  void operationsThatAChannelDoesNotHave(@TempDir Path folder) throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel listener = demultiplexor.listen(loopback(), recorder);
    AsynchChannel stream = demultiplexor.openStream(recorder);
    AsynchChannel file =
        demultiplexor.file(
            folder.resolve("f"),
            recorder,
            java.nio.file.StandardOpenOption.CREATE,
            java.nio.file.StandardOpenOption.WRITE);
    ByteBuffer room = ByteBuffer.allocate(8);
    Executable[] calls = {
      () -> listener.read(room),
      () -> listener.readPooled(),
      () -> listener.write(room),
      () -> listener.connect(loopback()),
      () -> listener.shutdownOutput(),
      () -> stream.accept(),
      () -> stream.tryAccept(opAccept -> {}),
      () -> stream.sync(),
      () -> stream.read(room, 0L),
      () -> stream.write(room, 0L),
      () -> stream.write(room, loopback()),
      () -> stream.connectDatagram(loopback()),
      () -> file.readPooled(),
      () -> file.accept(),
      () -> file.connect(loopback()),
      () -> file.getLocalAddress(),
      () -> file.shutdownInput(),
    };
    for (Executable call : calls) {
      var refused = assertThrows(UnsupportedOperationException.class, call);
      assertTrue(refused.getMessage().contains("needs"), refused::getMessage);
    }
    isWrong("position", () -> file.read(room, -1L));
  }

  @Test
  void closedChannels() throws Exception {
    Recorder recorder = new Recorder();
    Connection connection = connected(recorder);
    AsynchChannel channel = connection.channel();
    channel.close();
    recorder.next(What.CLOSED);
    ByteBuffer room = ByteBuffer.allocate(8);
    Executable[] calls = {
      () -> channel.read(room),
      () -> channel.readPooled(),
      () -> channel.write(room),
      () -> channel.startTimer(Duration.ZERO),
      () -> channel.connect(loopback()),
      () -> channel.shutdownOutput(),
      () -> channel.futures().read(room),
    };
    for (Executable call : calls) {
      assertThrows(ChannelClosedException.class, call);
    }
    assertEquals(0, channel.getQueuedBytes());
    assertEquals(false, channel.cancel(1));
    connection.peer().close();
  }
}
