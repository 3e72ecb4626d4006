package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.test.Completion.What;
import io.baton.test.EngineContract;
import io.baton.test.Patience;
import io.baton.test.Recorder;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketOption;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.NetworkChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The buffers and sockets that the engine takes, and their use. */
class BuffersTest extends EngineContract {

  @Override
  protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
    return builder.engine("native");
  }

  private static void refusesArenas(ByteBuffer view, Connection connection) {
    AsynchChannel channel = connection.channel();
    for (var call :
        new org.junit.jupiter.api.function.Executable[] {
          () -> channel.read(view),
          () -> channel.readExactly(view.slice()),
          () -> channel.write(view.duplicate()),
          () -> channel.futures().read(view),
        }) {
      var refused = assertThrows(IllegalArgumentException.class, call);
      assertTrue(
          refused.getMessage().startsWith("buffer: is a view of an arena that can be closed"),
          refused::getMessage);
    }
    // Refused starts claimed nothing.
    assertEquals(0, channel.getQueuedBytes());
  }

  @Test
  void viewsOfArenasThatCanBeClosedAreRefusedAtTheCall() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      try (Arena shared = Arena.ofShared();
          Arena confined = Arena.ofConfined()) {
        refusesArenas(shared.allocate(16).asByteBuffer(), connection);
        refusesArenas(confined.allocate(16).asByteBuffer(), connection);
      }
      for (Arena lasting : new Arena[] {Arena.ofAuto(), Arena.global()}) {
        connection.channel().write(lasting.allocate(16).asByteBuffer());
        recorder.nextGood(What.WRITE);
      }
      assertEquals(0, recorder.waiting());
    }
  }

  /** The lane looks for the delimiter before it starts anything, in the memory of this thread. */
  private static void failsOnly(Demultiplexor owner, AsynchChannel channel) throws Exception {
    try (Arena confined = Arena.ofConfined()) {
      ByteBuffer view = confined.allocate(16).asByteBuffer().put(bytes("line"));
      Throwable why =
          Patience.awaitFailure(channel.futures().readUntil(view, bytes("\n")), "the read");
      assertEquals(WrongThreadException.class, why.getClass());
    }
    // The channel goes on, and ends.
    ByteBuffer room = ByteBuffer.allocate(3);
    assertEquals(3, Patience.await(channel.futures().readExactly(room), "the next read"));
    assertEquals("abc", new String(room.array()));
    Patience.await(channel.futures().close(), "the close");
    Patience.await(owner.stop(Duration.ZERO), "the end");
  }

  @Test
  void aBufferThatTheLaneCannotReadFailsItsReadOnly(@TempDir Path folder) throws Exception {
    Path path = Files.writeString(folder.resolve("f"), "abc");
    failsOnly(demultiplexor, demultiplexor.file(path, new Recorder(), StandardOpenOption.READ));
    Demultiplexor nio = Demultiplexor.builder().engine("nio").threads(1).open();
    try (Connection connection = connected(nio, new Recorder())) {
      connection.peer().getOutputStream().write(bytes("abc"));
      failsOnly(nio, connection.channel());
    }
  }

  @Test
  void slicesAndViewsOfAllKindsMoveTheRightBytes() throws Exception {
    byte[] bytes = new byte[200_000];
    new SplittableRandom(7).nextBytes(bytes);
    ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length + 100).position(50);
    direct.put(bytes).flip().position(50);
    ByteBuffer array = ByteBuffer.wrap(new byte[bytes.length + 9], 9, bytes.length).slice();
    array.put(bytes).flip();
    ByteBuffer[] same = {
      direct, direct.slice(), direct.asReadOnlyBuffer(), array, array.asReadOnlyBuffer()
    };
    for (ByteBuffer out : same) {
      Recorder recorder = new Recorder();
      try (Connection connection = connected(recorder)) {
        int before = out.position();
        connection.channel().write(out);
        assertArrayEquals(bytes, connection.peer().getInputStream().readNBytes(bytes.length));
        assertEquals(bytes.length, recorder.nextGood(What.WRITE).bytes());
        out.position(before);
        ByteBuffer in = ByteBuffer.allocate(bytes.length + 20).position(13).slice();
        in.limit(bytes.length);
        connection.channel().readExactly(in);
        connection.peer().getOutputStream().write(bytes);
        recorder.nextGood(What.READ);
        assertEquals(ByteBuffer.wrap(bytes), in);
      }
    }
  }

  @Test
  void memoryForHeapBuffersIsGivenBackAtTheCompletion() throws Exception {
    WatchedCalls watched = WatchedCalls.on("auto");
    try (var one = Demultiplexor.builder().engine(watched).threads(1).open()) {
      Recorder recorder = new Recorder();
      try (Connection connection = connected(one, recorder)) {
        AsynchChannel channel = connection.channel();
        onLane(channel, () -> assertEquals(0, watched.engine().blocksOut()));
        long read = channel.read(ByteBuffer.allocate(100));
        onLane(channel, () -> assertEquals(1, watched.engine().blocksOut()));
        channel.write(ByteBuffer.allocate(100));
        recorder.nextGood(What.WRITE);
        onLane(channel, () -> assertEquals(1, watched.engine().blocksOut()));
        channel.cancel(read);
        recorder.next(What.READ);
        onLane(channel, () -> assertEquals(0, watched.engine().blocksOut()));
        // Direct buffers and pooled reads need none.
        channel.read(ByteBuffer.allocateDirect(100));
        channel.readPooled();
        channel.write(ByteBuffer.allocateDirect(100));
        recorder.nextGood(What.WRITE);
        onLane(channel, () -> assertEquals(0, watched.engine().blocksOut()));
      }
    }
  }

  @Test
  void addressesAreThoseOfTheJdkWhicheverBuffersCameBefore() {
    ByteBuffer memory = ByteBuffer.allocateDirect(1 << 10);
    ByteBuffer[] buffers = new ByteBuffer[100_000];
    for (int i = 0; i < buffers.length; i++) {
      buffers[i] = memory.slice(i % memory.capacity(), 1);
    }
    // More than are remembered: some have taken the places of others.
    for (int twice = 0; twice < 2; twice++) {
      for (ByteBuffer one : buffers) {
        assertEquals(MemorySegment.ofBuffer(one).address(), DirectBuffers.address(one));
      }
    }
    // The address is that of the buffer's begin, wherever its position is.
    memory.position(7).limit(9);
    assertEquals(MemorySegment.ofBuffer(memory).address() - 7, DirectBuffers.address(memory));
    assertEquals(DirectBuffers.address(buffers[0]), DirectBuffers.address(memory));
  }

  @Test
  void blocksComeInPowersOfTwoAndAreUsedAgainUpToABound() {
    Blocks blocks = new Blocks();
    for (int size : new int[] {1, 128, 129, 512, 4096, 4097, Blocks.LARGEST}) {
      Blocks.Block block = blocks.take(size);
      long have = block.memory.byteSize();
      assertTrue(have >= size && (have < 2L * size || have == Blocks.SMALLEST), "" + have);
      blocks.give(block);
      assertEquals(block, blocks.take(size));
      blocks.give(block);
    }
    int more = 2 * Blocks.KEPT_MAX / Blocks.LARGEST;
    Blocks.Block[] taken = new Blocks.Block[more];
    for (int i = 0; i < more; i++) {
      taken[i] = blocks.take(Blocks.LARGEST);
    }
    assertEquals(more, blocks.out());
    int alive = 0;
    for (Blocks.Block block : taken) {
      blocks.give(block);
    }
    for (Blocks.Block block : taken) {
      alive += block.memory.scope().isAlive() ? 1 : 0;
    }
    assertTrue(alive <= Blocks.KEPT_MAX / Blocks.LARGEST, "" + alive);
    blocks.close();
    assertEquals(0, blocks.out());
  }

  @Test
  void aWakeUpThatComesLateHitsNothing() throws Exception {
    NativeEngine engine =
        new NativeEngine(
            new ForeignCalls(), new io.baton.spi.EngineSettings(0, 1, java.util.Map.of()));
    engine.wake();
    engine.await(-1);
    engine.close();
    engine.wake();
  }

  @Test
  void aChannelOfJavaNioIsRefusedWithTheWayRound() throws Exception {
    try (SocketChannel raw = SocketChannel.open()) {
      var refused =
          assertThrows(
              IllegalArgumentException.class,
              () -> new AsynchChannel(demultiplexor, new Recorder(), raw));
      assertEquals(
          "channel: a SocketChannel of java.nio keeps its descriptor to itself, so the engine"
              + " native cannot use it; call listen, connect or openStream of the Demultiplexor,"
              + " and open(handler) of an accept, instead, or choose engine=nio",
          refused.getMessage());
      assertTrue(raw.isOpen());
      assertTrue(raw.isBlocking());
    }
  }

  @Test
  void fewSlotsMakeOperationsWaitAndLoseNone() throws Exception {
    List<String> warnings = new CopyOnWriteArrayList<>();
    Logger logger = Logger.getLogger("io.baton");
    Handler collecting =
        new Handler() {
          @Override
          public void publish(LogRecord message) {
            warnings.add(message.getMessage());
            // A log that fails must not end the engine.
            throw new IllegalStateException("of the test");
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    logger.addHandler(collecting);
    try (var two = choose(Demultiplexor.builder()).threads(1).set("native.slots", "2").open()) {
      Recorder recorder = new Recorder();
      AsynchChannel sink = two.datagram(loopback(), new Recorder());
      AsynchChannel[] channels = new AsynchChannel[20];
      for (int i = 0; i < channels.length; i++) {
        channels[i] = two.datagram(loopback(), recorder);
        channels[i].connectDatagram(sink.getLocalAddress());
      }
      for (int round = 0; round < 50; round++) {
        for (AsynchChannel channel : channels) {
          channel.write(ByteBuffer.allocate(1));
        }
        for (int i = 0; i < channels.length; i++) {
          recorder.nextGood(What.WRITE);
        }
      }
    } finally {
      logger.removeHandler(collecting);
    }
    assertEquals(1, warnings.size(), warnings::toString);
    assertTrue(warnings.get(0).contains("native.slots"), warnings::toString);
  }

  @Test
  void moreThanABatchIsStartedInOneTurn() throws Exception {
    Recorder recorder = new Recorder();
    int number = 3 * NativeEngine.BATCH + 1;
    AsynchChannel[] channels = new AsynchChannel[number];
    for (int i = 0; i < number; i++) {
      channels[i] = demultiplexor.datagram(loopback(), recorder);
    }
    long[] reads = new long[number];
    for (int i = 0; i < number; i++) {
      reads[i] = channels[i].read(ByteBuffer.allocateDirect(1));
    }
    for (int i = 0; i < number; i++) {
      channels[i].cancel(reads[i]);
    }
    for (int i = 0; i < number; i++) {
      recorder.next(What.READ);
    }
  }

  // -- sockets -----------------------------------------------------------------------------------

  private static <T> void keeps(AsynchChannel channel, SocketOption<T> option, T value)
      throws IOException {
    channel.setOption(option, value);
    assertEquals(value, channel.getOption(option), option.name());
  }

  @Test
  void optionsAreKept() throws Exception {
    AsynchChannel stream = demultiplexor.openStream(new Recorder());
    keeps(stream, StandardSocketOptions.TCP_NODELAY, true);
    keeps(stream, StandardSocketOptions.SO_KEEPALIVE, true);
    keeps(stream, StandardSocketOptions.SO_REUSEADDR, true);
    keeps(stream, StandardSocketOptions.SO_REUSEPORT, true);
    keeps(stream, StandardSocketOptions.SO_SNDBUF, 32 << 10);
    keeps(stream, StandardSocketOptions.SO_RCVBUF, 32 << 10);
    keeps(stream, StandardSocketOptions.SO_LINGER, 3);
    keeps(stream, StandardSocketOptions.SO_LINGER, -1);
    keeps(stream, StandardSocketOptions.SO_LINGER, 0);
    keeps(stream, StandardSocketOptions.IP_TOS, 0x10);
    keeps(stream, jdk.net.ExtendedSocketOptions.TCP_KEEPIDLE, 7);
    keeps(stream, jdk.net.ExtendedSocketOptions.TCP_KEEPINTERVAL, 8);
    keeps(stream, jdk.net.ExtendedSocketOptions.TCP_KEEPCOUNT, 9);
    Recorder accepting = new Recorder();
    AsynchChannel listener = listener(accepting);
    keeps(listener, jdk.net.ExtendedSocketOptions.TCP_KEEPIDLE, 7);
    keeps(listener, jdk.net.ExtendedSocketOptions.TCP_KEEPINTERVAL, 8);
    keeps(listener, jdk.net.ExtendedSocketOptions.TCP_KEEPCOUNT, 9);
    keeps(listener, jdk.net.ExtendedSocketOptions.TCP_QUICKACK, true);
    // Linux has a connection inherit them.
    plainClient(listener).close();
    AsynchChannel accepted = accepting.nextGood(What.ACCEPT).accepted();
    assertEquals(7, accepted.getOption(jdk.net.ExtendedSocketOptions.TCP_KEEPIDLE));
    AsynchChannel datagram = demultiplexor.openDatagram(new Recorder());
    keeps(datagram, StandardSocketOptions.SO_BROADCAST, true);
    keeps(datagram, StandardSocketOptions.IP_MULTICAST_TTL, 255);
    keeps(datagram, StandardSocketOptions.IP_MULTICAST_TTL, 0);
    keeps(datagram, StandardSocketOptions.IP_TOS, 0);
    keeps(datagram, StandardSocketOptions.IP_MULTICAST_LOOP, false);
    NetworkInterface network = NetworkInterface.getByInetAddress(InetAddress.getLoopbackAddress());
    keeps(datagram, StandardSocketOptions.IP_MULTICAST_IF, network);
  }

  private static void hasOptionsOf(NetworkChannel other, AsynchChannel channel) {
    for (SocketOption<?> option : other.supportedOptions()) {
      // Further ones depend on the JDK.
      boolean isStandard = option.getClass() == StandardSocketOptions.SO_RCVBUF.getClass();
      assertTrue(!isStandard || channel.supportedOptions().contains(option), option::name);
    }
  }

  @Test
  void theStandardOptionsOfJavaNioAreThere() throws Exception {
    try (var stream = SocketChannel.open();
        var listener = ServerSocketChannel.open();
        var datagram = DatagramChannel.open()) {
      hasOptionsOf(stream, demultiplexor.openStream(new Recorder()));
      hasOptionsOf(listener, demultiplexor.openListener(new Recorder()));
      hasOptionsOf(datagram, demultiplexor.openDatagram(new Recorder()));
    }
  }

  @Test
  void optionsThatCannotBeAreRefused() throws Exception {
    AsynchChannel stream = demultiplexor.openStream(new Recorder());
    assertThrows(
        UnsupportedOperationException.class,
        () -> stream.setOption(StandardSocketOptions.SO_BROADCAST, true));
    assertThrows(
        UnsupportedOperationException.class,
        () -> stream.getOption(StandardSocketOptions.SO_BROADCAST));
    assertThrows(
        IllegalArgumentException.class, () -> stream.setOption(StandardSocketOptions.IP_TOS, 256));
    assertThrows(
        IllegalArgumentException.class,
        () -> stream.setOption(StandardSocketOptions.SO_SNDBUF, -1));
    assertThrows(
        IllegalArgumentException.class, () -> stream.setOption(StandardSocketOptions.IP_TOS, null));
  }

  @Test
  void ipv6AndIpv4AreBothServed() throws Exception {
    Recorder accepting = new Recorder();
    AsynchChannel listener = demultiplexor.listen(new InetSocketAddress(0), accepting);
    int port = address(listener).getPort();
    for (String host : new String[] {"127.0.0.1", "::1"}) {
      listener.accept();
      Recorder client = new Recorder();
      InetSocketAddress to = new InetSocketAddress(host, port);
      AsynchChannel channel = demultiplexor.connect(to, client);
      client.nextGood(What.CONNECT);
      AsynchChannel accepted = accepting.nextGood(What.ACCEPT).accepted();
      assertEquals(to, channel.getRemoteAddress());
      assertEquals(to, accepted.getLocalAddress());
      assertEquals(channel.getLocalAddress(), accepted.getRemoteAddress());
    }
  }

  @Test
  void sendersAreToldApart() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = demultiplexor.datagram(loopback(), recorder);
    AsynchChannel[] peers = new AsynchChannel[3];
    for (int i = 0; i < peers.length; i++) {
      peers[i] = demultiplexor.datagram(loopback(), new Recorder());
    }
    for (int round = 0; round < 3; round++) {
      for (AsynchChannel peer : peers) {
        for (int twice = 0; twice < 2; twice++) {
          peer.write(buffer("x"), channel.getLocalAddress());
          channel.read(ByteBuffer.allocate(1));
          assertEquals(peer.getLocalAddress(), recorder.nextGood(What.READ).sender());
        }
      }
    }
  }
}
