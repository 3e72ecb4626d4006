package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.CloseReason;
import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.OpAccept;
import io.baton.OpClose;
import io.baton.OpConnect;
import io.baton.OpRead;
import io.baton.OperationCancelledException;
import io.baton.StoppedException;
import io.baton.test.Completion.What;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** The rights of handlers, futures, posted work, and the end: rules 7 and 9. */
public abstract class HandlerContract extends EngineContract {

  @Test
  void rule7WhatAHandlerThrowsClosesItsChannelAndNoOther() throws Exception {
    IllegalStateException mine = new IllegalStateException("thrown by the test");
    Recorder throwing =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) {
            throw mine;
          }
        };
    // One lane, so that the other channel has the thread that the exception went through.
    try (Demultiplexor one = builder().threads(1).open()) {
      Recorder quiet = new Recorder();
      try (Connection good = connected(one, quiet);
          Connection bad = connected(one, throwing)) {
        bad.channel().read(ByteBuffer.allocate(1));
        bad.peer().getOutputStream().write('a');
        Completion closed = throwing.next(What.CLOSED);
        assertEquals(CloseReason.HANDLER_FAILED, closed.reason());
        assertSame(mine, closed.error());
        assertSame(mine, takeReported());
        assertEquals(-1, bad.peer().getInputStream().read());

        good.channel().read(ByteBuffer.allocate(1));
        good.peer().getOutputStream().write('a');
        quiet.nextGood(What.READ);
      }
    }
  }

  @Test
  void rule7AnExceptionThatCannotBePrintedEndsNoLane() throws Exception {
    RuntimeException nasty =
        new RuntimeException() {
          private static final long serialVersionUID = 1;

          @Override
          public String getMessage() {
            throw this;
          }
        };
    Recorder recorder =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) {
            throw nasty;
          }
        };
    DemultiplexorBuilder printing =
        builder()
            .threads(1)
            .exceptionHandler(
                error -> {
                  throw nasty;
                });
    try (Demultiplexor one = printing.open();
        Connection connection = connected(one, recorder)) {
      connection.channel().read(ByteBuffer.allocate(1));
      connection.peer().getOutputStream().write('a');
      assertEquals(CloseReason.HANDLER_FAILED, recorder.next(What.CLOSED).reason());
      CompletableFuture<Void> next = new CompletableFuture<>();
      one.post(() -> next.complete(null));
      Patience.await(next, "the next task of the lane");
    }
  }

  @Test
  void rule7AnErrorInOnClosedIsReported() throws Exception {
    Error mine = new Error("thrown by the test");
    Recorder recorder =
        new Recorder() {
          @Override
          public void onClosed(OpClose opClose) {
            throw mine;
          }
        };
    Connection connection = connected(recorder);
    Patience.await(connection.channel().futures().close(), "the close");
    connection.close();
    assertSame(mine, takeReported());
  }

  @Test
  void aHandlerMayDoTheWorkOfItsLaneWhileItWaits() throws Exception {
    try (Demultiplexor one = builder().threads(1).open()) {
      CompletableFuture<Integer> read = new CompletableFuture<>();
      Recorder waiting =
          new Recorder() {
            @Override
            public void onReadCompleted(OpRead opRead) {
              AsynchChannel channel = opRead.getAsynchChannel();
              CompletableFuture<Integer> inside = channel.futures().read(ByteBuffer.allocate(1));
              while (!inside.isDone()) {
                one.turn();
              }
              read.complete(inside.join());
            }
          };
      try (Connection connection = connected(one, waiting)) {
        connection.channel().read(ByteBuffer.allocate(1));
        connection.peer().getOutputStream().write(new byte[] {'a', 'b'});
        assertEquals(1, Patience.await(read, "the read inside the handler"));
      }
      assertThrows(IllegalStateException.class, one::turn);
    }
  }

  @Test
  void anInterruptEndsTheWaitOfAHandlerAndStaysSet() throws Exception {
    try (Demultiplexor one = builder().threads(1).open()) {
      for (int i = 0; i < 50; i++) {
        CompletableFuture<Thread> lane = new CompletableFuture<>();
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        one.post(
            () -> {
              lane.complete(Thread.currentThread());
              while (!Thread.currentThread().isInterrupted()) {
                one.turn();
              }
              interrupted.complete(Thread.interrupted());
            });
        Thread waiting = Patience.await(lane, "the handler that waits");
        // The handler is inside turn() when this has run, and soon waits again.
        CompletableFuture<Void> inside = new CompletableFuture<>();
        one.post(() -> inside.complete(null));
        Patience.await(inside, "a post inside the handler");
        if (i % 2 == 0) {
          Thread.yield();
        }
        waiting.interrupt();
        assertTrue(Patience.await(interrupted, "the end of the handler's wait"));
      }
    }
  }

  @Test
  void aHandlerWithoutTheMethodIsTold() throws Exception {
    CompletableFuture<OpClose> closed = new CompletableFuture<>();
    AsynchHandler poor =
        new AsynchHandler() {
          @Override
          public void onClosed(OpClose opClose) {
            closed.complete(opClose);
          }
        };
    AsynchChannel listener = listener(poor);
    try (Socket client = plainClient(listener)) {
      Patience.await(closed, "the close");
      assertTrue(takeReported().getMessage().contains("onAcceptCompleted"));
    }
    AsynchChannel stream = demultiplexor.openStream(new AsynchHandler() {});
    stream.startTimer(Duration.ZERO);
    Patience.await(stream.futures().close(), "the close");
    assertTrue(takeReported().getMessage().contains("onTimeout"));
  }

  @Test
  void aHandlerThatBlocksHoldsUpItsLaneOnly() throws Exception {
    CountDownLatch release = new CountDownLatch(1);
    CompletableFuture<Void> blocked = new CompletableFuture<>();
    Recorder blocking =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            blocked.complete(null);
            release.await();
            super.onReadCompleted(opRead);
          }
        };
    Recorder quick = new Recorder();
    // Channels take the two lanes by turns.
    try (Connection first = connected(blocking);
        Connection second = connected(quick)) {
      first.channel().read(ByteBuffer.allocate(1));
      first.peer().getOutputStream().write('a');
      Patience.await(blocked, "the handler that blocks");
      for (int i = 0; i < 100; i++) {
        second.channel().read(ByteBuffer.allocate(1));
        second.peer().getOutputStream().write('a');
        quick.nextGood(What.READ);
      }
      // Starts on the blocked lane are taken, and wait.
      first.channel().write(buffer("x"));
      assertEquals(0, blocking.waiting());
      release.countDown();
      blocking.nextGood(What.READ);
      blocking.nextGood(What.WRITE);
    }
  }

  @Test
  void anInterruptOfAHandlerEndsWithIt() throws Exception {
    Recorder recorder =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            super.onReadCompleted(opRead);
            Thread.currentThread().interrupt();
          }
        };
    try (Connection connection = connected(recorder)) {
      for (int i = 0; i < 3; i++) {
        connection.channel().read(ByteBuffer.allocate(1));
        connection.peer().getOutputStream().write('a');
        recorder.nextGood(What.READ);
      }
      // A read that had to wait: the interrupt neither closed the channel nor stayed.
      onLane(connection.channel(), () -> assertFalse(Thread.currentThread().isInterrupted()));
    }
  }

  @Test
  void anInterruptOfAHandlerDoesNotReachTheNextOne() throws Exception {
    CompletableFuture<Boolean> next = new CompletableFuture<>();
    try (Demultiplexor one = builder().threads(1).open()) {
      // On the lane, so that both run in one turn.
      one.post(
          () -> {
            one.post(Thread.currentThread()::interrupt);
            one.post(() -> next.complete(Thread.currentThread().isInterrupted()));
          });
      assertFalse(Patience.await(next, "the second post"));
    }
  }

  @Test
  void futuresCompleteAndFailAsTheirOperations() throws Exception {
    Recorder recorder = new Recorder();
    try (Connection connection = connected(recorder)) {
      var futures = connection.channel().futures();
      assertEquals(5, Patience.await(futures.write(buffer("hello")), "a write"));
      assertEquals("hello", new String(connection.peer().getInputStream().readNBytes(5)));
      ByteBuffer room = ByteBuffer.allocate(10);
      byte[] delimiter = bytes("\n");
      CompletableFuture<Integer> read = futures.readUntil(room, delimiter);
      // The program's again.
      delimiter[0] = 0;
      connection.peer().getOutputStream().write(bytes("line\n"));
      assertEquals(5, Patience.await(read, "a line"));

      CompletableFuture<Integer> cancelled = futures.read(room.clear());
      assertTrue(cancelled.cancel(true));
      assertTrue(
          Patience.awaitFailure(cancelled, "the read") instanceof OperationCancelledException);
      assertFalse(cancelled.cancel(true));

      CompletableFuture<Integer> pending = futures.read(room.clear());
      Patience.await(futures.close(), "the close");
      Patience.awaitFailure(pending, "the read");
      assertEquals(What.CLOSED, recorder.nextAny().what());
      assertEquals(0, recorder.waiting(), "futures and handler at once");
    }
  }

  @Test
  void futuresConnectAndAccept() throws Exception {
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    CompletableFuture<AsynchChannel> accepted = listener.futures().accept(new Recorder());
    AsynchChannel client = demultiplexor.openStream(new Recorder());
    Patience.await(client.futures().connect(address(listener)), "the connect");
    AsynchChannel server = Patience.await(accepted, "the accept");
    Patience.await(client.futures().write(buffer("x")), "the write");
    assertEquals(
        1, Patience.await(server.futures().readExactly(ByteBuffer.allocate(1)), "the read"));
  }

  @Test
  void aFutureThatTheProgramCompletesEndsItsOperation() throws Exception {
    assertNull(endOfARead(late -> assertTrue(late.complete(0))));
    assertNull(endOfARead(late -> late.completeAsync(() -> 0)));
    assertTrue(
        endOfARead(late -> late.orTimeout(1, TimeUnit.MILLISECONDS)) instanceof TimeoutException);
    IllegalStateException mine = new IllegalStateException("thrown by the test");
    assertSame(
        mine,
        endOfARead(
                late ->
                    late.completeAsync(
                        () -> {
                          throw mine;
                        }))
            .getCause());
  }

  /**
   * Has the future of a read completed, and starts the next read in a stage of it.
   *
   * @return with what error the first one ended, null without
   */
  private Throwable endOfARead(Consumer<CompletableFuture<Integer>> complete) throws Exception {
    // More than the test sends: the first read does not end by itself.
    int large = 100_000;
    try (Connection connection = connected(new Recorder())) {
      AsynchChannel channel = connection.channel();
      CompletableFuture<Integer> late = channel.futures().readExactly(ByteBuffer.allocate(large));
      // It runs as soon as the future is complete, and holds up what completes it.
      CompletableFuture<Throwable> next =
          late.handle(
              (value, error) -> {
                var second = channel.futures().read(ByteBuffer.allocate(10));
                try {
                  for (int sent = 0; !second.isDone(); sent++) {
                    assertTrue(sent < large, "the first read has got all the bytes");
                    connection.peer().getOutputStream().write('a');
                    Thread.sleep(1);
                  }
                } catch (IOException | InterruptedException e) {
                  throw new CompletionException(e);
                }
                assertTrue(Patience.await(second, "the second read") > 0);
                return error;
              });
      complete.accept(late);
      return Patience.await(next, "the second read");
    }
  }

  @Test
  void aConnectionThatAFutureGetsTooLateIsClosed() throws Exception {
    AsynchChannel listener = demultiplexor.listen(loopback(), new Recorder());
    // In contrast to complete() it does not ask for the end of the accept.
    listener.futures().accept(new Recorder()).obtrudeValue(null);
    try (Socket client = plainClient(listener)) {
      assertEquals(-1, client.getInputStream().read());
    }
  }

  @Test
  void postedWorkRunsInOrderOnTheLane() throws Exception {
    Recorder recorder = new Recorder();
    List<Integer> order = new ArrayList<>();
    try (Connection connection = connected(recorder)) {
      for (int i = 0; i < 1000; i++) {
        int number = i;
        connection.channel().post(() -> order.add(number));
      }
      onLane(
          connection.channel(),
          () -> {
            assertEquals(1000, order.size());
            for (int i = 0; i < 1000; i++) {
              assertEquals(i, order.get(i));
            }
          });
      IllegalStateException mine = new IllegalStateException("thrown by the test");
      CompletableFuture<Void> after = new CompletableFuture<>();
      connection
          .channel()
          .post(
              () -> {
                throw mine;
              });
      connection.channel().post(() -> after.complete(null));
      Patience.await(after, "the second post");
      assertSame(mine, takeReported());
    }
  }

  @Test
  void theLanesKeepTheProgramAlive() throws Exception {
    CompletableFuture<Boolean> daemon = new CompletableFuture<>();
    // A thread is what its maker is, unless it is told.
    Thread maker =
        new Thread(
            () -> {
              try (Demultiplexor own = builder().threads(1).open()) {
                own.post(() -> daemon.complete(Thread.currentThread().isDaemon()));
              } catch (IOException e) {
                daemon.completeExceptionally(e);
              }
            });
    maker.setDaemon(true);
    maker.start();
    assertFalse(Patience.await(daemon, "the lane"));
    Patience.await(maker);
  }

  @Test
  void rule9StopEndsEverythingAndNothingComesAfterwards() throws Exception {
    Demultiplexor own = builder().open();
    Recorder recorder = new Recorder();
    Connection connection = connected(own, recorder);
    connection.channel().read(ByteBuffer.allocate(1));
    own.close();
    recorder.next(What.READ);
    assertEquals(CloseReason.STOPPED, recorder.next(What.CLOSED).reason());
    assertEquals(0, recorder.waiting());
    assertTrue(own.terminated().isDone());
    assertThrows(StoppedException.class, () -> own.post(() -> {}));
    assertThrows(StoppedException.class, () -> connection.channel().post(() -> {}));
    assertThrows(StoppedException.class, () -> own.openStream(recorder));
    assertThrows(StoppedException.class, () -> own.schedule(Duration.ZERO, () -> {}));
    own.close();
    connection.peer().close();
  }

  @Test
  void rule9AHandlerMayStop() throws Exception {
    Demultiplexor own = builder().open();
    Recorder recorder =
        new Recorder() {
          @Override
          public void onReadCompleted(OpRead opRead) throws Exception {
            super.onReadCompleted(opRead);
            own.close();
          }
        };
    Connection connection = connected(own, recorder);
    connection.channel().read(ByteBuffer.allocate(1));
    connection.peer().getOutputStream().write('a');
    recorder.nextGood(What.READ);
    assertEquals(CloseReason.STOPPED, recorder.next(What.CLOSED).reason());
    Patience.await(own.terminated(), "the end");
    connection.peer().close();
  }

  @Test
  void rule9AGracefulStopLetsTheRestFinish() throws Exception {
    Demultiplexor own = builder().open();
    Recorder accepting = new Recorder();
    AsynchChannel listener = own.listen(loopback(), accepting);
    listener.accept();
    Recorder recorder = new Recorder();
    Connection connection = connected(own, recorder);
    CompletableFuture<Void> stopped = own.stop(Patience.PATIENCE);
    assertTrue(own.isStopping());
    accepting.next(What.ACCEPT);
    assertEquals(CloseReason.STOPPED, accepting.next(What.CLOSED).reason());
    recorder.next(What.STOPPING);
    connection.channel().write(buffer("the rest"));
    recorder.nextGood(What.WRITE);
    assertFalse(stopped.isDone());
    assertThrows(StoppedException.class, () -> own.listen(loopback(), accepting));
    connection.channel().close();
    assertEquals(CloseReason.REQUESTED, recorder.next(What.CLOSED).reason());
    Patience.await(stopped, "the end");
    assertEquals("the rest", new String(connection.peer().getInputStream().readAllBytes()));
    connection.peer().close();
  }

  private WeakReference<Demultiplexor> stopped() throws Exception {
    Demultiplexor own = builder().open();
    // It is not quiet before.
    AsynchChannel open = own.openStream(new Recorder());
    var end = own.stop(Duration.ofDays(1));
    open.close();
    Patience.await(end, "the end");
    return new WeakReference<>(own);
  }

  @Test
  void rule9ADemultiplexorThatHasStoppedIsForgottenBeforeItsDeadline() throws Exception {
    Patience.awaitForgotten(stopped(), "a Demultiplexor");
  }

  /** Opens a channel, closes the one that was opened before, and forgets both. */
  private static WeakReference<AsynchChannel> replace(
      Demultiplexor owner, AtomicReference<AsynchChannel> before) throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel channel = owner.openStream(recorder);
    onLane(channel, () -> {});
    Patience.await(before.getAndSet(channel).futures().close(), "the close");
    onLane(channel, () -> {});
    return new WeakReference<>(channel);
  }

  @Test
  void aClosedChannelThatIsKeptKeepsNoOther() throws Exception {
    try (Demultiplexor one = builder().threads(1).open()) {
      AsynchChannel kept = one.openStream(new Recorder());
      AtomicReference<AsynchChannel> before = new AtomicReference<>(kept);
      WeakReference<AsynchChannel> second = replace(one, before);
      replace(one, before);
      replace(one, before);
      Patience.awaitForgotten(second, "a channel");
      assertFalse(kept.isOpen());
    }
  }

  @Test
  void aClosedChannelThatIsKeptKeepsNoneBeforeIt() throws Exception {
    try (Demultiplexor one = builder().threads(1).open()) {
      AtomicReference<AsynchChannel> before = new AtomicReference<>(one.openStream(new Recorder()));
      WeakReference<AsynchChannel> second = replace(one, before);
      AsynchChannel kept = one.openStream(new Recorder());
      Patience.await(kept.futures().close(), "the close");
      replace(one, before);
      Patience.awaitForgotten(second, "a channel");
      assertFalse(kept.isOpen());
    }
  }

  @Test
  void rule9AStopWithoutChannelsIsNoWait() throws Exception {
    Patience.await(builder().open().stop(Duration.ofDays(1)), "the end");
  }

  @Test
  void rule9WorkThatWasTakenRunsBeforeTheEnd() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    CountDownLatch goOn = held(own);
    CompletableFuture<Void> end = own.stop(Duration.ZERO);
    CountDownLatch left = new CountDownLatch(1000);
    for (int i = 0; i < 1000; i++) {
      own.post(left::countDown);
    }
    goOn.countDown();
    Patience.await(end, "the end");
    assertEquals(0, left.getCount());
  }

  @Test
  void rule9AChannelThatComesDuringAGracefulStopIsTold() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    Recorder recorder = new Recorder();
    AsynchChannel first = own.openStream(recorder);
    CompletableFuture<Void> end = own.stop(Duration.ofDays(1));
    recorder.next(What.STOPPING);
    Recorder late = new Recorder();
    AsynchChannel second = own.openStream(late);
    late.next(What.STOPPING);
    first.close();
    second.close();
    Patience.await(end, "the end");
  }

  @Test
  void rule9AChannelThatIsOpenedWhenAnotherIsToldOfAStopIsToldToo() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    Recorder late = new Recorder();
    CompletableFuture<AsynchChannel> second = new CompletableFuture<>();
    CompletableFuture<Integer> toldInside = new CompletableFuture<>();
    Recorder recorder =
        new Recorder() {
          @Override
          public void onStopping(AsynchChannel channel) throws Exception {
            super.onStopping(channel);
            AsynchChannel opened = own.openStream(late);
            toldInside.complete(late.waiting());
            second.complete(opened);
          }
        };
    AsynchChannel first = own.openStream(recorder);
    CompletableFuture<Void> end = own.stop(Duration.ofDays(1));
    recorder.next(What.STOPPING);
    // Once, and not inside the call that opens it.
    late.next(What.STOPPING);
    assertEquals(0, Patience.await(toldInside, "the first channel"));
    Patience.await(second, "the second channel").close();
    first.close();
    Patience.await(end, "the end");
    late.next(What.CLOSED);
    assertEquals(0, late.waiting());
  }

  @Test
  void rule9WorkThatPostsItselfForEverDoesNotHoldUpTheEnd() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    CountDownLatch ran = new CountDownLatch(10);
    CompletableFuture<StoppedException> refused = new CompletableFuture<>();
    own.post(
        new Runnable() {
          @Override
          public void run() {
            ran.countDown();
            try {
              own.post(this);
            } catch (StoppedException e) {
              refused.complete(e);
            }
          }
        });
    Patience.await(ran, "the work");
    Patience.await(own.stop(Duration.ZERO), "the end");
    Patience.await(refused, "the refusal");
  }

  @Test
  void rule9AChannelThatComesJustBeforeAGracefulStopIsToldOnce() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    CountDownLatch goOn = held(own);
    Recorder recorder = new Recorder();
    AsynchChannel channel = own.openStream(recorder);
    CompletableFuture<Void> end = own.stop(Duration.ofDays(1));
    goOn.countDown();
    recorder.next(What.STOPPING);
    channel.close();
    Patience.await(end, "the end");
    recorder.next(What.CLOSED);
  }

  @Test
  void rule9AChannelThatClosesIsNotToldOfAStop() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    Recorder recorder = new Recorder();
    AsynchChannel channel = own.openStream(recorder);
    CountDownLatch goOn = held(own);
    channel.close();
    CompletableFuture<Void> end = own.stop(Duration.ofDays(1));
    goOn.countDown();
    Patience.await(end, "the end");
    recorder.next(What.CLOSED);
    assertEquals(0, recorder.waiting());
  }

  @Test
  void rule9AStopMayGetAnEarlierDeadline() throws Exception {
    Demultiplexor own = builder().open();
    Recorder recorder = new Recorder();
    own.openStream(recorder);
    own.stop(Duration.ofDays(1));
    recorder.next(What.STOPPING);
    Patience.await(own.stop(Duration.ZERO), "the end");
    assertEquals(CloseReason.STOPPED, recorder.next(What.CLOSED).reason());
  }

  @Test
  void rule9WhatAHandlerThrowsWhenItIsToldOfAStopClosesItsChannel() throws Exception {
    IllegalStateException mine = new IllegalStateException("thrown by the test");
    Recorder recorder =
        new Recorder() {
          @Override
          public void onStopping(AsynchChannel channel) {
            throw mine;
          }
        };
    Demultiplexor own = builder().open();
    own.openStream(recorder);
    Patience.await(own.stop(Duration.ofDays(1)), "the end");
    assertEquals(CloseReason.HANDLER_FAILED, recorder.next(What.CLOSED).reason());
    assertSame(mine, takeReported());
  }

  @Test
  void rule9AConnectionThatComesTooLateIsClosed() throws Exception {
    Demultiplexor own = builder().threads(1).open();
    CompletableFuture<Throwable> refused = new CompletableFuture<>();
    AsynchHandler late =
        new AsynchHandler() {
          @Override
          public void onAcceptCompleted(OpAccept opAccept) {
            own.close();
            refused.complete(
                assertThrows(StoppedException.class, () -> opAccept.open(new Recorder())));
          }
        };
    AsynchChannel listener = own.listen(loopback(), late);
    listener.accept();
    try (Socket client = plainClient(listener)) {
      Patience.await(refused, "the refusal");
      assertEquals(-1, client.getInputStream().read());
    }
    Patience.await(own.terminated(), "the end");
  }

  private static long sockets() throws IOException {
    try (var numbers = Files.list(Path.of("/proc/self/fd"))) {
      return numbers.filter(HandlerContract::isSocket).count();
    }
  }

  private static boolean isSocket(Path number) {
    try {
      return Files.readSymbolicLink(number).toString().startsWith("socket:");
    } catch (IOException e) {
      // It was closed meanwhile.
      return false;
    }
  }

  @Test
  void rule6TheDescriptorIsFreeWhenTheCloseIsTold() throws Exception {
    int number = 20;
    List<Long> left = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch connects = new CountDownLatch(number);
    CountDownLatch ends = new CountDownLatch(number);
    AsynchHandler handler =
        new AsynchHandler() {
          @Override
          public void onReadCompleted(OpRead opRead) {}

          @Override
          public void onConnectCompleted(OpConnect opConnect) {
            connects.countDown();
            // The engine watches it from now on.
            opConnect.getAsynchChannel().read(ByteBuffer.allocate(1));
          }

          @Override
          public void onClosed(OpClose opClose) throws Exception {
            left.add(sockets());
            ends.countDown();
          }
        };
    try (ServerSocket server = new ServerSocket(0, number, InetAddress.getLoopbackAddress());
        Demultiplexor own = builder().threads(1).open()) {
      List<AsynchChannel> channels = new ArrayList<>();
      for (int i = 0; i < number; i++) {
        channels.add(own.connect(server.getLocalSocketAddress(), handler));
      }
      Patience.await(connects, "the connects");
      // Behind the handlers of all connects.
      onLane(channels.get(0), () -> {});
      long before = sockets();
      channels.forEach(AsynchChannel::close);
      Patience.await(ends, "the ends of all channels");
      for (int i = 0; i < number; i++) {
        assertTrue(left.get(i) < before - i, () -> before + " sockets, then " + left);
      }
    }
  }

  @Test
  void rule9AChannelThatIsRefusedLeavesNoSocket() throws Exception {
    Demultiplexor own = builder().open();
    own.close();
    long before = sockets();
    int number = 20;
    for (int i = 0; i < number; i++) {
      assertThrows(StoppedException.class, () -> own.openStream(new Recorder()));
    }
    assertTrue(sockets() < before + number, () -> before + " sockets before");
  }

  @Test
  void rule9AGracefulStopEndsAtItsDeadline() throws Exception {
    Demultiplexor own = builder().open();
    Recorder recorder = new Recorder();
    Connection connection = connected(own, recorder);
    connection.channel().read(ByteBuffer.allocate(1));
    CompletableFuture<Void> stopped = own.stop(Duration.ofMillis(1));
    Completion first = recorder.nextAny();
    // A lane that hears of the stop at its deadline or later closes at once.
    assertEquals(
        What.READ, first.what() == What.STOPPING ? recorder.nextAny().what() : first.what());
    assertEquals(CloseReason.STOPPED, recorder.next(What.CLOSED).reason());
    Patience.await(stopped, "the end");
    connection.peer().close();
  }

  @Test
  void rule9StopsRaceWithStarts() throws Exception {
    for (int i = 0; i < 50; i++) {
      Demultiplexor own = builder().open();
      Recorder recorder = new Recorder();
      Connection connection = connected(own, recorder);
      CountDownLatch begun = new CountDownLatch(1);
      CompletableFuture<Integer> taken = new CompletableFuture<>();
      Thread starter =
          new Thread(
              () -> {
                int number = 0;
                begun.countDown();
                try {
                  while (true) {
                    connection.channel().startTimer(Duration.ZERO);
                    number++;
                  }
                } catch (IllegalStateException e) {
                  // Closed, or for once too many at a time: the count is what matters.
                  taken.complete(number);
                }
              });
      starter.start();
      Patience.await(begun, "the starter");
      own.close();
      int number = Patience.await(taken, "the last start");
      for (int j = 0; j < number; j++) {
        recorder.next(What.TIMEOUT);
      }
      recorder.next(What.CLOSED);
      assertEquals(0, recorder.waiting());
      connection.peer().close();
    }
  }
}
