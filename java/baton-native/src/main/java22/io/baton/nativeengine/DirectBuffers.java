package io.baton.nativeengine;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The addresses of direct buffers, and whether their memory can be freed while the kernel uses it.
 *
 * <p>The JDK answers both only through a new segment, two objects for each operation. So the
 * answers are remembered by the buffer's identity, in a table of a fixed size: a few places for
 * each hash, where a newcomer takes the place of a buffer that is gone, or else of another one. A
 * program with many thousands of buffers in use pays the objects for some of them.
 *
 * <p><b>Threads:</b> any, without a lock. An entry never changes; one that another thread
 * overwrites is made again.
 */
final class DirectBuffers {
  private static final int PLACES_A_HASH = 4;

  /** Places in all: four times as many as a lane has slots by default. */
  private static final int PLACES = 1 << 16;

  private static final Set<Class<?>> CLOSEABLE = closeable();
  private static final Known[] KNOWN = new Known[PLACES];

  private DirectBuffers() {}

  private static final class Known extends WeakReference<ByteBuffer> {
    // Final, so that a thread that reads the table without a lock sees them.
    final long address;
    final boolean canBeClosed;

    Known(ByteBuffer buffer) {
      super(buffer);
      // A duplicate, whose position no other code moves.
      MemorySegment whole = MemorySegment.ofBuffer(buffer.duplicate().clear());
      address = whole.address();
      canBeClosed = CLOSEABLE.contains(whole.scope().getClass());
    }
  }

  /** The address of the byte at index 0. */
  static long address(ByteBuffer direct) {
    return known(direct).address;
  }

  /** Whether it is a view of an arena that can be closed. */
  static boolean canBeClosed(ByteBuffer buffer) {
    return buffer.isDirect() && known(buffer).canBeClosed;
  }

  private static Known known(ByteBuffer buffer) {
    int hash = System.identityHashCode(buffer);
    int first = hash * PLACES_A_HASH & PLACES - 1;
    int free = first + (hash >>> 16) % PLACES_A_HASH;
    for (int i = first; i < first + PLACES_A_HASH; i++) {
      Known one = KNOWN[i];
      if (one == null || one.refersTo(null)) {
        free = i;
      } else if (one.refersTo(buffer)) {
        return one;
      }
    }
    Known one = new Known(buffer);
    KNOWN[free] = one;
    return one;
  }

  /**
   * The JDK has no question for it. So the classes of scopes are learnt from one example of each
   * kind. A JDK that had one class for both would have every buffer pass.
   */
  private static Set<Class<?>> closeable() {
    try (Arena shared = Arena.ofShared();
        Arena confined = Arena.ofConfined()) {
      Set<Class<?>> lasting =
          Stream.of(
                  Arena.global().scope(),
                  Arena.ofAuto().scope(),
                  MemorySegment.ofBuffer(ByteBuffer.allocateDirect(1)).scope())
              .map(Object::getClass)
              .collect(Collectors.toSet());
      return Stream.of(shared.scope(), confined.scope())
          .<Class<?>>map(Object::getClass)
          .filter(one -> !lasting.contains(one))
          .collect(Collectors.toUnmodifiableSet());
    }
  }
}
