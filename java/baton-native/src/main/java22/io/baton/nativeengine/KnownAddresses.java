package io.baton.nativeengine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.Inet6Address;
import java.net.InetSocketAddress;

/**
 * Addresses of the peers of a lane's datagrams, in both forms: {@link InetSocketAddress} gives its
 * bytes away only in a new array, and needs new objects to be made from bytes. A peer that comes
 * again costs nothing on the heap, while there are fewer than some hundreds.
 *
 * <p><b>Threads:</b> the lane's.
 */
final class KnownAddresses {
  /** Addresses that each table holds. */
  static final int SIZE = 1024;

  // An address has a group of places, and replaces one of the others there.
  private static final int GROUP = 4;
  private static final int WORDS = SocketAddresses.SIZE_MAX / Long.BYTES;

  /** Addresses in the system's form, {@link #WORDS} for each. */
  private static final class Table {
    final InetSocketAddress[] addresses = new InetSocketAddress[SIZE];
    final long[] words = new long[SIZE * WORDS];
    private int turn;

    static int firstOf(int hash) {
      return (hash ^ hash >>> 16) * GROUP & (SIZE - 1);
    }

    /** The place for unknown addresses. */
    int replaced(int first) {
      turn = (turn + 1) % GROUP;
      return first + turn;
    }

    void keep(int place, InetSocketAddress address, MemorySegment memory) {
      addresses[place] = address;
      for (int i = 0; i < WORDS; i++) {
        words[place * WORDS + i] = word(memory, i);
      }
    }

    /** Whether the system calls this one so. */
    boolean equals(int place, MemorySegment memory) {
      boolean same = addresses[place] != null;
      for (int i = 0; i < WORDS; i++) {
        same &= words[place * WORDS + i] == word(memory, i);
      }
      return same;
    }
  }

  // Made when they are needed first: most lanes serve streams.
  private Table targets;
  private Table senders;

  /** As {@link SocketAddresses#encode}; the memory has {@link SocketAddresses#SIZE_MAX} bytes. */
  int encode(InetSocketAddress address, int family, MemorySegment to) {
    if (targets == null) {
      targets = new Table();
    }
    int first = Table.firstOf(31 * address.hashCode() + family);
    for (int place = first; place < first + GROUP; place++) {
      // The family is in the first word.
      int begin = place * WORDS;
      if ((short) targets.words[begin] == family && same(targets.addresses[place], address)) {
        for (int i = 0; i < WORDS; i++) {
          to.set(ValueLayout.JAVA_LONG, (long) i * Long.BYTES, targets.words[begin + i]);
        }
        return SocketAddresses.size(family);
      }
    }
    int length = SocketAddresses.encode(address, family, to);
    targets.keep(targets.replaced(first), address, to);
    return length;
  }

  /** Equal, and in the same scope, which InetSocketAddress does not compare. */
  private static boolean same(InetSocketAddress known, InetSocketAddress address) {
    return known == address || known.equals(address) && scope(known) == scope(address);
  }

  private static int scope(InetSocketAddress address) {
    return address.getAddress() instanceof Inet6Address host ? host.getScopeId() : 0;
  }

  /** As {@link SocketAddresses#decode}. */
  InetSocketAddress decode(MemorySegment from) {
    if (senders == null) {
      senders = new Table();
    }
    long hash = 0;
    for (int i = 0; i < WORDS; i++) {
      hash = 31 * hash + word(from, i);
    }
    int first = Table.firstOf((int) (hash ^ hash >>> 32));
    for (int place = first; place < first + GROUP; place++) {
      if (senders.equals(place, from)) {
        return senders.addresses[place];
      }
    }
    InetSocketAddress address = SocketAddresses.decode(from);
    senders.keep(senders.replaced(first), address, from);
    return address;
  }

  /** A word of an address in memory; what is behind the address is 0. */
  private static long word(MemorySegment memory, int index) {
    long at = (long) index * Long.BYTES;
    int size = SocketAddresses.size(memory.get(ValueLayout.JAVA_SHORT, 0));
    if (at + Long.BYTES <= size) {
      return memory.get(ValueLayout.JAVA_LONG, at);
    }
    return at < size ? memory.get(ValueLayout.JAVA_INT, at) : 0;
  }
}
