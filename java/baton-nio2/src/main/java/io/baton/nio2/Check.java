package io.baton.nio2;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.UnresolvedAddressException;
import java.nio.channels.UnsupportedAddressTypeException;

/** Refuses bad arguments by an exception that names the argument. */
final class Check {

  private Check() {}

  static void notNull(Object value, String name) {
    if (value == null) {
      throw new NullPointerException(name + ": is null");
    }
  }

  static void atLeastOne(int value, String name) {
    if (value < 1) {
      throw new IllegalArgumentException(name + ": " + value + " is out of range (1 or more)");
    }
  }

  static void writable(ByteBuffer buffer, String name) {
    notNull(buffer, name);
    if (buffer.isReadOnly()) {
      throw new IllegalArgumentException(name + ": is read-only, so nothing can be read into it");
    }
  }

  /** The part of an array of buffers, as a copy. */
  static ByteBuffer[] part(ByteBuffer[] buffers, int offset, int length, String name) {
    notNull(buffers, name);
    if (offset < 0 || length < 0 || length > buffers.length - offset) {
      throw new IndexOutOfBoundsException(
          "offset, length: "
              + offset
              + ", "
              + length
              + " are out of range; "
              + name
              + " has "
              + buffers.length
              + " buffers");
    }
    ByteBuffer[] part = new ByteBuffer[length];
    for (int i = 0; i < length; i++) {
      part[i] = buffers[offset + i];
      notNull(part[i], name + "[" + (offset + i) + "]");
    }
    return part;
  }

  /** JDK exceptions have no text, so the cause names the wrong address. */
  static void address(SocketAddress address, String name) {
    notNull(address, name);
    if (!(address instanceof InetSocketAddress internet)) {
      throw because(
          new UnsupportedAddressTypeException(),
          name + ": is a " + address.getClass().getName() + ", not an InetSocketAddress");
    }
    if (internet.isUnresolved()) {
      throw because(
          new UnresolvedAddressException(),
          name + ": the host " + internet.getHostString() + " could not be resolved");
    }
  }

  /**
   * The JDK's answer to an IPv6 address where only IPv4 is used; other types are refused before.
   */
  static SocketException noFamily(UnsupportedAddressTypeException cause) {
    SocketException error = new SocketException("Protocol family unavailable");
    error.initCause(cause);
    return error;
  }

  private static RuntimeException because(RuntimeException error, String text) {
    error.initCause(new IllegalArgumentException(text));
    return error;
  }
}
