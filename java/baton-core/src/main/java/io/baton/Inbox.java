package io.baton;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Tasks that other threads give to a lane: a Treiber stack that the lane takes as a whole and
 * reverses, so that the tasks of one thread stay in order. A stack that is only ever emptied as a
 * whole has no ABA problem.
 */
final class Inbox {
  private static final VarHandle TOP;
  private static final Task CLOSED =
      new Task() {
        @Override
        void run() {
          throw new AssertionError("the mark of a closed inbox is not a task");
        }
      };

  static {
    try {
      TOP = MethodHandles.lookup().findVarHandle(Inbox.class, "top", Task.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
    // The JVM needs memory for the first call, and a lane may end when there is none.
    new Inbox().closeIfEmpty();
  }

  private volatile Task top;

  /** Any thread. False once the inbox is closed. */
  boolean push(Task task) {
    Task seen;
    do {
      seen = top;
      if (seen == CLOSED) {
        return false;
      }
      task.next = seen;
    } while (!TOP.compareAndSet(this, seen, task));
    return true;
  }

  boolean isEmpty() {
    return top == null;
  }

  /**
   * The lane's thread: moves everything to the end of the queue, the oldest first, and accepts to a
   * queue of their own.
   */
  void moveTo(TaskQueue<Task> queue, TaskQueue<Task> accepts) {
    if (top == null) {
      return;
    }
    Task taken = (Task) TOP.getAndSet(this, null);
    Task oldest = null;
    while (taken != null) {
      Task behind = taken.next;
      taken.next = oldest;
      oldest = taken;
      taken = behind;
    }
    while (oldest != null) {
      Task behind = oldest.next;
      oldest.next = null;
      (isAccept(oldest) ? accepts : queue).add(oldest);
      oldest = behind;
    }
  }

  /** An accept must not overtake the task that makes its listener known to the lane. */
  private static boolean isAccept(Task task) {
    return task instanceof OpAccept accept && accept.channel.core.isListed;
  }

  /** The lane's thread: refuses everything from now on, unless there is something. */
  boolean closeIfEmpty() {
    return TOP.compareAndSet(this, null, CLOSED);
  }
}
