package io.baton;

import java.net.Inet4Address;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.UnsupportedAddressTypeException;
import java.time.Duration;

/** Refuses bad arguments by an exception that names the argument. */
final class Check {
  private static final Duration LONGEST = Duration.ofDays(36_500);

  private Check() {}

  static void notNull(Object value, String name) {
    if (value == null) {
      throw new NullPointerException(name + ": is null");
    }
  }

  static void readable(ByteBuffer buffer, String name) {
    notNull(buffer, name);
    if (!buffer.hasRemaining()) {
      throw new IllegalArgumentException(
          name + ": has nothing to write: position and limit are " + buffer.limit());
    }
  }

  static void writable(ByteBuffer buffer, String name) {
    notReadOnly(buffer, name);
    if (!buffer.hasRemaining()) {
      throw new IllegalArgumentException(
          name
              + ": has no room to read into: position and limit are "
              + buffer.limit()
              + "; clear() or compact() it");
    }
  }

  static void notReadOnly(ByteBuffer buffer, String name) {
    notNull(buffer, name);
    if (buffer.isReadOnly()) {
      throw new IllegalArgumentException(name + ": is read-only, so nothing can be read into it");
    }
  }

  static SocketAddress address(SocketAddress address, String name) {
    notNull(address, name);
    if (address instanceof InetSocketAddress internet && internet.isUnresolved()) {
      throw new IllegalArgumentException(
          name + ": the host " + internet.getHostString() + " could not be resolved");
    }
    return address;
  }

  /** An address of a type that the socket does not have; java.nio does not say which. */
  static IllegalArgumentException wrongAddress(
      SocketAddress address, String name, UnsupportedAddressTypeException cause) {
    String why;
    if (!(address instanceof InetSocketAddress internet)) {
      why =
          " is a "
              + address.getClass().getSimpleName()
              + ", and this socket takes an InetSocketAddress only; for a UNIX socket, give a"
              + " channel of java.nio to the constructor of AsynchChannel";
    } else if (internet.getAddress() instanceof Inet4Address) {
      why = " is of the internet, and this socket takes a UnixDomainSocketAddress only";
    } else {
      why =
          " is of IPv6, and this Java machine has IPv4 only (java.net.preferIPv4Stack), or this"
              + " socket takes a UnixDomainSocketAddress only";
    }
    return new IllegalArgumentException(name + ": " + address + why, cause);
  }

  static InetSocketAddress address(String host, int port) {
    notNull(host, "host");
    if (port < 0 || port > 65_535) {
      throw new IllegalArgumentException("port: " + port + " is out of range (0 to 65535)");
    }
    InetSocketAddress address = new InetSocketAddress(host, port);
    address(address, "host");
    return address;
  }

  /** Nanoseconds, at least 1. */
  static long positive(Duration duration, String name) {
    notNull(duration, name);
    if (duration.isNegative() || duration.isZero()) {
      throw new IllegalArgumentException(name + ": " + duration + " is not a positive time");
    }
    return nanoseconds(duration);
  }

  /** Nanoseconds, 0 or more. */
  static long notNegative(Duration duration, String name) {
    notNull(duration, name);
    if (duration.isNegative()) {
      throw new IllegalArgumentException(name + ": " + duration + " is negative");
    }
    return nanoseconds(duration);
  }

  static long inRange(long value, long least, long most, String name) {
    if (value < least || value > most) {
      throw new IllegalArgumentException(
          name + ": " + value + " is out of range (" + least + " to " + most + ")");
    }
    return value;
  }

  /** Text of a program or its user for a message, at most 60 characters of it. */
  static String quoted(String text) {
    return "'" + (text.length() > 60 ? text.substring(0, 60) + "..." : text) + "'";
  }

  private static long nanoseconds(Duration duration) {
    // A century is for ever, and keeps sums of times within a long.
    return (duration.compareTo(LONGEST) > 0 ? LONGEST : duration).toNanos();
  }
}
