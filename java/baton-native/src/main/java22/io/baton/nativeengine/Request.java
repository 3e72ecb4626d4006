package io.baton.nativeengine;

import io.baton.spi.Transfer;
import java.nio.ByteBuffer;

/**
 * The engine's state of a transfer in flight, and the slot that keeps its memory reachable. It
 * stays with its transfer for the next use. For the lane's thread.
 */
final class Request {
  final Transfer transfer;

  /** Its place in the table of the engine, and its tag; -1: not in flight. */
  int slot = -1;

  /** The library's name for it; 0: it waits in the engine's queue. */
  long activation;

  /** An operation of baton.h. */
  short kind;

  /** The transfer's buffer, which the kernel may read or write; null for kinds without bytes. */
  ByteBuffer buffer;

  /** The address of the bytes that the operation may move, and their number; 0 without any. */
  long data;

  int length;

  /** Stands for the buffer, if that is on the heap. */
  Blocks.Block bytes;

  /** The address to send to or connect to, or where the sender's is written. */
  Blocks.Block address;

  boolean cancelAsked;

  // Links of the engine's queue.
  Request previous;
  Request following;

  Request(Transfer transfer) {
    this.transfer = transfer;
  }
}
