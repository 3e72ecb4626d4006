package io.baton.spi;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;

/**
 * The mechanism under one lane.
 *
 * <p><b>Threads:</b> {@link #start}, {@link #cancel}, {@link #await} and {@link #close} are called
 * by the lane's thread only; {@link #wake} and the methods that make endpoints by any thread.
 *
 * <p><b>Ownership:</b> a transfer and its buffer are the engine's from {@link #start} until the
 * engine completes the transfer. An engine completes every transfer exactly once, by one of its
 * completion methods, inside {@code start}, {@code cancel} or {@code await}, on the lane's thread.
 * Completing a transfer only queues it, so nothing of the library or of the user runs inside.
 *
 * <p>For each endpoint at most one transfer of the reading side ({@code READ}, {@code RECEIVE},
 * {@code ACCEPT}) and one of the writing side ({@code WRITE}, {@code SEND}, {@code CONNECT}) is
 * started at a time. {@code CLOSE} comes last, when no other one is in flight.
 */
public interface Engine extends AutoCloseable {

  /**
   * Takes over a channel of {@code java.nio}.
   *
   * @param channel a socket, listener or datagram channel; it is the engine's if this succeeds
   * @return its endpoint
   * @throws IOException if the channel is closed or cannot be made non-blocking
   * @throws IllegalArgumentException if the engine cannot use this channel; the message says what
   *     to call instead
   */
  Endpoint adopt(SelectableChannel channel) throws IOException;

  /**
   * Makes an endpoint that is neither bound nor connected.
   *
   * @param kind of the endpoint
   * @return a new endpoint, closed by the caller until it is started here
   * @throws IOException if the system refuses, for example for lack of descriptors
   */
  Endpoint open(Endpoint.Kind kind) throws IOException;

  /**
   * Checks a buffer before an operation with it is started. Any thread.
   *
   * @param buffer the program's
   * @throws IllegalArgumentException if the engine cannot use this kind of buffer; the message
   *     begins with {@code buffer:} and says which one to take
   */
  default void check(ByteBuffer buffer) {}

  /**
   * The engine's own choices, with reasons. Any thread.
   *
   * @return lines of text, or nothing
   */
  default String explain() {
    return "";
  }

  /**
   * Starts a transfer. Never blocks and never throws: an error completes the transfer. The first
   * start on an endpoint ties the endpoint to this engine.
   *
   * @param transfer to be completed once
   */
  void start(Transfer transfer);

  /**
   * Asks for an early end of a transfer that is in flight. It still completes once: by {@link
   * Transfer#cancelled}, or as it would have done.
   *
   * @param transfer started here and not complete
   */
  void cancel(Transfer transfer);

  /**
   * Waits until a transfer completes, the time is over, {@link #wake} is called, or the thread is
   * interrupted, which stays set. May return early. Time-outs are rounded up.
   *
   * @param nanoseconds 0: do not wait; negative: no limit
   * @throws IOException if the engine is broken; it is closed then, and its lane ends
   */
  void await(long nanoseconds) throws IOException;

  /**
   * Ends the present {@link #await}, or the next one if there is none. Any thread; the library
   * calls it at most once for each wait.
   */
  void wake();

  /**
   * Frees the engine's resources. No endpoint is left that was started and not closed, except after
   * a failure of {@link #await}.
   *
   * @throws IOException if the system refuses; reported and otherwise ignored
   */
  @Override
  void close() throws IOException;
}
